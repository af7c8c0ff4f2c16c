// An unmodified bullmq worker whose processors are chosen by the job's name. argv[2] is the configuration:
//   {port, adapter, username?, password?, ca?, prefix, queue,
//    options: {lockDuration, lockRenewTime, stalledInterval, …},
//    lag_us_min?: how late its own loop has to be for a line about it, otlp?: see telemetry.mjs}
// stdout: one JSON object a line, {event, …}. stdin: {"do": "let", "job": id} frees a held job, {"do": "close"}.
import { bullmq, config, connection, onCommand, say, versions } from './lib.mjs';
import * as telemetry from './telemetry.mjs';

const { DelayedError, Queue, WaitingChildrenError, Worker } = bullmq;

const seen = new Map(); // job id -> how often it was processed here
const gates = new Map(); // job id -> {open, opened}
const renewals = new Map(); // job id -> resolver, called at the next answer to a renewal

function gate(id) {
  if (!gates.has(id)) {
    const made = {};
    made.opened = new Promise(resolve => { made.open = resolve; });
    gates.set(id, made);
  }
  return gates.get(id);
}

// Holds the event loop without burning a processor: to the wire it is the same as a busy one.
function block(ms) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

const processors = {
  complete: async job => ({ returned: job.data.secret }),
  fail: async job => { throw new Error(`reason ${job.data.secret}`); },
  flaky: async (job, _token, first) => {
    if (first) throw new Error(`reason ${job.data.secret}`);
  },
  delay: async (job, token, first) => {
    if (!first) return;
    await job.moveToDelayed(Date.now() + job.data.ms, token);
    throw new DelayedError();
  },
  stray: async (job, token) => { await job.moveToDelayed(Date.now() + job.data.ms, token); }, // and goes on
  parent: async (job, token, first) => {
    if (!first) return;
    const queue = new Queue(config.queue, { prefix: config.prefix, connection: connection(config) });
    queue.on('error', error => say('error', { message: error.message }));
    const parent = { id: job.id, queue: job.queueQualifiedName };
    await queue.add('complete', { secret: job.data.secret }, { jobId: job.data.child, parent });
    await queue.close();
    if (await job.moveToWaitingChildren(token)) throw new WaitingChildrenError();
  },
  block: async (job, _token, first) => {
    if (!first) return;
    block(job.data.ms);
    await new Promise(resolve => renewals.set(job.id, resolve)); // the overdue timer speaks before the job ends
  },
  hold: async job => { await gate(job.id).opened; },
  hang: async () => { await new Promise(() => {}); },
  nap: async job => { await new Promise(resolve => setTimeout(resolve, job.data.ms)); },
  stumble: async job => {
    await new Promise(resolve => setTimeout(resolve, job.data.ms));
    if (job.attemptsMade < job.data.fails) throw new Error(`stumbled ${job.attemptsMade}`);
  },
};

async function run(job, token) {
  const times = (seen.get(job.id) ?? 0) + 1;
  seen.set(job.id, times);
  say('active', { job: job.id, name: job.name, times, token });
  return processors[job.name](job, token, times === 1);
}

const client = connection(config);
const options = { connection: client, prefix: config.prefix, ...telemetry.options, ...config.options };
const worker = new Worker(config.queue, run, options);

worker.on('ready', () => say('ready', versions()));
worker.on('completed', job => say('completed', { job: job.id }));
worker.on('failed', (job, error) => say('failed', { job: job?.id, reason: error.message }));
worker.on('stalled', id => say('stalled', { job: id }));
worker.on('error', error => say('error', { message: error.message }));
worker.on('locksRenewed', ({ jobIds }) => {
  for (const id of jobIds) {
    say('renewed', { job: id });
    renewals.get(id)?.();
  }
});
worker.on('lockRenewalFailed', ids => {
  for (const id of ids) {
    say('renewal_refused', { job: id });
    renewals.get(id)?.();
  }
});

// A beat on the event loop: what lies between two beats beyond its 10 ms is the loop's own lag. The instants are those
// of the machine's monotonic clock, which every process on it shares.
function watchLag(lagUsMin) {
  const now = () => Number(process.hrtime.bigint() / 1000n);
  let due = now() + 10_000;
  const beat = () => {
    const at = now();
    if (at - due >= lagUsMin) say('lag', { at_us: at, lag_us: at - due });
    due = at + 10_000;
    setTimeout(beat, 10).unref();
  };
  setTimeout(beat, 10).unref();
}

if (config.lag_us_min) watchLag(config.lag_us_min);

let closing = false;
onCommand({
  let: ({ job }) => gate(job).open(),
  close: async () => {
    if (closing) return;
    closing = true;
    await worker.close();
    if (client.disconnect) await client.disconnect();
    await telemetry.flush();
    say('closed');
    process.exit(0);
  },
});
