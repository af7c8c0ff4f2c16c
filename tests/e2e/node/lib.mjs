// What worker and producer share: connections by adapter, and JSON lines in both directions.
//
// The packages live in a cache outside the repository: E2E_PACKAGES names the folder that `npm ci` filled.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { join } from 'node:path';

export const require = createRequire(join(process.env.E2E_PACKAGES, 'package.json'));

export const config = JSON.parse(process.argv[2]);

export function say(event, fields = {}) {
  process.stdout.write(JSON.stringify({ event, ...fields }) + '\n');
}

// One client instance for `connection`: ioredis takes options, node-redis is made by us, as its users do.
export function connection({ port, adapter, username, password }) {
  if (adapter === 'ioredis') {
    const { Redis } = require('ioredis');
    return new Redis({ host: '127.0.0.1', port, username, password, maxRetriesPerRequest: null });
  }
  const { createClient } = require('redis');
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
