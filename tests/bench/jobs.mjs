// The benchmark's BullMQ, unmodified: argv[2] is {do: fill | work | pace, port, jobs, concurrency?, per_s?}.
// fill adds jobs and ends; pace adds them at an even rate; work takes them, and tells in the end how long it took.
import { config, connection, onCommand, require, say } from '../e2e/node/lib.mjs';

const { Queue, Worker } = require('bullmq');
const client = connection({ ...config, adapter: 'ioredis' });
const options = { connection: client };

const seconds = () => Number(process.hrtime.bigint()) / 1e9;
const some = count => Array.from({ length: count }, () => ({ name: 'nothing', data: {} }));

function share(times, part) {
  times.sort((a, b) => a - b);
  return times.length ? times[Math.min(times.length - 1, Math.floor(times.length * part))] : 0;
}

async function fill(queue) {
  for (let left = config.jobs; left > 0; left -= 1000) await queue.addBulk(some(Math.min(left, 1000)));
}

async function pace(queue) {
  await new Promise(run => {
    onCommand({ run, close: () => process.exit(1) });
    say('ready');
  });
  const began = seconds();
  for (let added = 0; added < config.jobs;) {
    await new Promise(resolve => setTimeout(resolve, 10));
    const due = Math.min(config.jobs, Math.floor((seconds() - began) * config.per_s));
    if (due > added) await queue.addBulk(some(due - added));
    added = Math.max(added, due);
  }
}

async function add(how) {
  const queue = new Queue('bench', options);
  await queue.waitUntilReady();
  const began = seconds();
  await how(queue);
  say('added', { seconds: seconds() - began });
  await queue.close();
  client.disconnect();
  process.exit(0);
}

async function work() {
  const returned = new Map();
  const finishing = [];
  const waiting = [];
  let failed = 0;
  const worker = new Worker('bench', async job => { returned.set(job.id, seconds()); }, {
    ...options, concurrency: config.concurrency, autorun: false,
  });
  worker.on('error', error => say('error', { message: error.message }));
  worker.on('failed', () => { failed += 1; });
  await worker.waitUntilReady();
  let began = 0;
  let cpu;
  worker.on('completed', async job => {
    finishing.push(1000 * (seconds() - returned.get(job.id)));
    waiting.push(Date.now() - job.timestamp);
    returned.delete(job.id);
    if (finishing.length < config.jobs) return;
    const took = seconds() - began;
    const used = process.cpuUsage(cpu);
    say('done', {
      jobs: finishing.length, failed, seconds: took, cpu_s: (used.user + used.system) / 1e6,
      p50_ms: share(finishing, 0.5), p99_ms: share(finishing, 0.99),
      waited_p50_ms: share(waiting, 0.5), waited_p99_ms: share(waiting, 0.99),
    });
    await worker.close();
    client.disconnect();
    process.exit(0);
  });
  onCommand({
    run: () => {
      began = seconds();
      cpu = process.cpuUsage();
      worker.run();
    },
    close: () => process.exit(1),
  });
  say('ready');
}

await { fill: () => add(fill), pace: () => add(pace), work }[config.do]();
