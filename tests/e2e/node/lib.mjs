// What worker and producer share: a client by its name, and JSON lines in both directions.
//
// The packages live in a cache outside the repository: E2E_PACKAGES names the folder that `npm ci` filled.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { join } from 'node:path';

export const require = createRequire(join(process.env.E2E_PACKAGES, 'package.json'));

export const config = JSON.parse(process.argv[2]);

export function say(event, fields = {}) {
  process.stdout.write(JSON.stringify({ event, ...fields }) + '\n');
}

// adapter -> [package of the queue, package of its Redis client], as package.json names them
const CLIENTS = {
  'ioredis': ['bullmq', 'ioredis'],
  'ioredis5': ['bullmq', 'ioredis5'],
  'node-redis': ['bullmq', 'redis'],
  'bullmq5': ['bullmq5', 'ioredis5'],
  'bullmq4': ['bullmq4', 'ioredis5'],
};

const packages = CLIENTS[config.adapter ?? 'ioredis'];

export const bullmq = require(packages[0]);

// What really runs, as the packages say it of themselves.
export function versions() {
  const [queue, driver] = packages.map(name => {
    const file = join(process.env.E2E_PACKAGES, 'node_modules', name, 'package.json');
    return JSON.parse(readFileSync(file, 'utf8')).version;
  });
  return { bullmq: queue, driver };
}

// One client instance for `connection`: ioredis takes options, node-redis is made by us, as its users do.
// `ca`: the path of an authority's certificate; with it, TLS.
export function connection({ port, adapter, username, password, ca }) {
  const driver = CLIENTS[adapter][1];
  if (driver !== 'redis') {
    const { Redis } = require(driver);
    const tls = ca && { ca: readFileSync(ca) };
    return new Redis({ host: '127.0.0.1', port, username, password, tls, maxRetriesPerRequest: null });
  }
  const { createClient } = require(driver);
  const client = createClient({ url: `redis://127.0.0.1:${port}`, username, password });
  client.on('error', () => {}); // the worker says it; without a listener node ends
  return client;
}

export function onCommand(handlers) {
  const input = createInterface({ input: process.stdin });
  input.on('line', line => {
    const command = JSON.parse(line);
    handlers[command.do](command);
  });
  input.on('close', () => handlers.close({}));
}
