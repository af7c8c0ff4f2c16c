// Many unmodified bullmq workers in one process, each with two connections of its own, some of which are lost at random.
// argv[2] is the configuration:
//   {port, queue, prefix, workers, options: {lockDuration, …}, reconnect_ms?: how often one connection is thrown away}
// stdout: {"event": "ready" | "counts" | "closed", …}. stdin: {"do": "count"}, {"do": "calm"}, {"do": "close"}.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { join } from 'node:path';

const { Worker } = createRequire(join(process.env.E2E_PACKAGES, 'package.json'))('bullmq');
const config = JSON.parse(process.argv[2]);
const counts = { completed: 0, failed: 0, errors: 0, reconnects: 0 };
const say = (event, fields = {}) => process.stdout.write(JSON.stringify({ event, ...fields }) + '\n');
const errors = new Map(); // message -> how often

async function run(job) {
  await new Promise(resolve => setTimeout(resolve, job.data.ms));
  return job.data.ms;
}

const workers = Array.from({ length: config.workers }, () => {
  const connection = { host: '127.0.0.1', port: config.port, maxRetriesPerRequest: null };
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

async function throwAway() {
  const worker = workers[Math.floor(Math.random() * workers.length)];
  const client = Math.random() < 0.5 ? await worker.client : await worker.blockingConnection.client;
  counts.reconnects += 1;
  client.disconnect(true); // and it connects again by itself
}

const restless = config.reconnect_ms ? setInterval(throwAway, config.reconnect_ms) : undefined;

const handlers = {
  count: () => say('counts', { ...counts, said: Object.fromEntries(errors) }),
  calm: () => clearInterval(restless),
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
