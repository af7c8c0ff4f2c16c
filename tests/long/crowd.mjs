// Many unmodified bullmq workers in one process, each with two connections of its own, which it may lose at random.
// argv[2] is the configuration:
//   {port, queue, prefix, workers, options: {lockDuration, …},
//    reconnect_ms: how often one connection is thrown away, while stirred}
// stdout: {"event": "ready" | "counts" | "closed", …}.
// stdin: {"do": "count"}, {"do": "stir"}, {"do": "calm"}, {"do": "close"}.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { join } from 'node:path';

const require = createRequire(join(process.env.E2E_PACKAGES, 'package.json'));
const { Worker } = require('bullmq');
const { Redis } = require('ioredis');
const config = JSON.parse(process.argv[2]);
const counts = { completed: 0, failed: 0, errors: 0, reconnects: 0 };
const say = (event, fields = {}) => process.stdout.write(JSON.stringify({ event, ...fields }) + '\n');
const errors = new Map(); // message -> how often

const clients = [];

// Each is known, those too that a worker makes for itself.
class Known extends Redis {
  constructor(...options) {
    super(...options);
    clients.push(this);
  }

  duplicate(more) {
    return new Known({ ...this.options, ...more });
  }
}

async function run(job) {
  await new Promise(resolve => setTimeout(resolve, job.data.ms));
  return job.data.ms;
}

const workers = Array.from({ length: config.workers }, () => {
  const connection = new Known({ host: '127.0.0.1', port: config.port, maxRetriesPerRequest: null });
  const worker = new Worker(config.queue, run, { connection, prefix: config.prefix, ...config.options });
  worker.on('completed', () => { counts.completed += 1; });
  worker.on('failed', () => { counts.failed += 1; });
  worker.on('error', error => {
    counts.errors += 1;
    const message = error.message.slice(0, 60);
    errors.set(message, (errors.get(message) ?? 0) + 1);
  });
  return worker;
});

function throwAway() {
  const client = clients[Math.floor(Math.random() * clients.length)];
  if (client.status !== 'ready') return;
  counts.reconnects += 1;
  client.disconnect(true); // and it connects again by itself
}

let restless;

const handlers = {
  count: () => say('counts', { ...counts, said: Object.fromEntries(errors) }),
  calm: () => clearInterval(restless),
  stir: () => { restless = setInterval(throwAway, config.reconnect_ms); },
  close: async () => {
    clearInterval(restless);
    await Promise.all(workers.map(worker => worker.close()));
    say('closed');
    process.exit(0);
  },
};
createInterface({ input: process.stdin }).on('line', line => handlers[JSON.parse(line).do]());

await Promise.all(workers.map(worker => worker.waitUntilReady()));
say('ready');
