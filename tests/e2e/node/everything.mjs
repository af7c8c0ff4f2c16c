// Calls all that an unmodified bullmq offers which speaks to a script, on jobs of every state.
// argv[2] as producer.mjs's.
// stdout: {event: 'called', what} for each, {event: 'error', what, message} where it failed; it goes on.
import { bullmq, config, connection, say } from './lib.mjs';

const { FlowProducer, Queue, QueueEvents, Worker } = bullmq;
const options = { prefix: config.prefix };
const clients = [];
function client() {
  clients.push(connection(config));
  return clients.at(-1);
}

const queue = new Queue(config.queue, { ...options, connection: client() });
const flows = new FlowProducer({ ...options, connection: client() });
const worker = new Worker(config.queue, null, {
  ...options,
  connection: client(),
  autorun: false,
  lockDuration: 20000,
  maxStalledCount: 1,
});
const TOKEN = 'fixed-token-of-one-hand';

async function call(what, run) {
  try {
    const result = await run();
    say('called', { what });
    return result;
  } catch (error) {
    say('error', { what, message: String(error?.message ?? error) });
    return undefined;
  }
}

// Where a release has the method, calls it.
async function method(of, name, ...args) {
  if (typeof of?.[name] === 'function') return call(name, () => of[name](...args));
  return undefined;
}

async function next(token = TOKEN) {
  return call('getNextJob', () => worker.getNextJob(token, { block: false }));
}

for (const [name, opts] of Object.entries({
  plain: {},
  delayed: { delay: 100000 },
  urgent: { priority: 5 },
  named: { jobId: 'my-id' },
  lifo: { lifo: true },
  once: { deduplication: { id: 'once' } },
  kept: { removeOnComplete: true, removeOnFail: 3, attempts: 3 },
  both: { delay: 100000, priority: 3 },
  throttled: { deduplication: { id: 'ttl', ttl: 1000 } },
})) {
  await call(`add ${name}`, () => queue.add(name, { a: 1 }, opts));
}
await call('add once more', () => queue.add('once', {}, { deduplication: { id: 'once' } }));
await method(queue, 'addBulk', [
  { name: 'b', data: {} },
  { name: 'c', data: {}, opts: { delay: 5000 } },
]);
await call('repeat', () => queue.add('often', {}, { repeat: { every: 60000 } }));
await call('cron', () => queue.add('cron', {}, { repeat: { pattern: '0 3 * * *' } }));
for (const at of ['first', 'again']) {
  await method(
    queue,
    'upsertJobScheduler',
    'nightly',
    { every: 50000 },
    { name: `n${at}`, data: {}, opts: { priority: 2 } },
  );
}
await method(queue, 'upsertJobScheduler', 'cronly', { pattern: '0 4 * * *' }, { name: 'n' });
for (const name of ['getJobSchedulers', 'getRepeatableJobs', 'getJobSchedulersCount']) await method(queue, name);
await method(queue, 'getJobScheduler', 'nightly');
const tree = await call('flow', () =>
  flows.add({
    name: 'root',
    queueName: config.queue,
    opts: { jobId: 'root' },
    children: [
      { name: 'leaf', queueName: config.queue, opts: { jobId: 'leaf', failParentOnFailure: true } },
      {
        name: 'twig',
        queueName: config.queue,
        opts: { jobId: 'twig', removeDependencyOnFailure: true, priority: 7 },
      },
      {
        name: 'deep',
        queueName: config.queue,
        opts: { jobId: 'deep' },
        children: [{ name: 'd', queueName: config.queue, opts: { delay: 10 } }],
      },
    ],
  }),
);
await method(flows, 'getFlow', { id: 'root', queueName: config.queue, prefix: config.prefix });

async function look(job) {
  for (const name of [
    'getState',
    'isCompleted',
    'isFailed',
    'isDelayed',
    'isActive',
    'isWaiting',
    'isWaitingChildren',
    'getDependencies',
    'getDependenciesCount',
    'getChildrenValues',
    'getFailedChildrenValues',
    'getIgnoredChildrenFailures',
  ])
    await method(job, name);
  await method(queue, 'getJobLogs', job.id);
}

async function write(job) {
  await method(job, 'updateProgress', 50);
  await method(job, 'updateProgress', { done: 1 });
  await method(job, 'updateData', { b: 2 });
  await method(job, 'update', { b: 3 });
  await method(job, 'log', 'a row');
  await method(job, 'clearLogs', 1);
  await method(job, 'changePriority', { priority: 9 });
  await method(job, 'changeDelay', 90000);
  await look(job);
}

await write(tree.job);
for (const child of tree.children ?? []) await look(child.job);
const ends = [
  async (job) => job.moveToCompleted({ ok: 1 }, TOKEN, false),
  async (job) => job.moveToCompleted('ok', TOKEN, true),
  async (job) => job.moveToFailed(new Error('no'), TOKEN, false),
  async (job) => job.moveToFailed(new Error('no'), TOKEN, true),
  async (job) => job.moveToDelayed(Date.now() + 30000, TOKEN),
  async (job) => job.moveToWait?.(TOKEN),
  async (job) => job.moveToWaitingChildren(TOKEN, {}),
  async (job) => job.extendLock(TOKEN, 15000),
];
for (let turn = 0; turn < 24; turn += 1) {
  const job = await next();
  if (!job) break;
  await call('extendLock', () => job.extendLock(TOKEN, 15000));
  await method(worker, 'extendJobLocks', [job.id], [TOKEN], 15000);
  if (turn < 3) await write(job);
  const end = ends[turn % ends.length];
  await call(`end ${turn % ends.length}`, () => end(job));
}
for (const id of ['root', 'leaf', 'twig', 'deep', 'my-id']) {
  const job = await call('getJob', () => queue.getJob(id));
  if (!job) continue;
  await look(job);
  await method(job, 'promote');
  await method(job, 'retry', 'failed');
  await method(job, 'removeChildDependency');
  await method(job, 'removeUnprocessedChildren');
  await method(job, 'removeDeduplicationKey');
}
for (const name of ['startStalledCheckTimer', 'moveStalledJobsToWait']) await method(worker, name);
await method(worker, 'rateLimit', 50);
for (const name of [
  'getRateLimitTtl',
  'isMaxed',
  'pause',
  'isPaused',
  'resume',
  'getJobCounts',
  'getWorkers',
  'count',
  'getGlobalConcurrency',
  'getGlobalRateLimit',
  'getQueueEvents',
  'removeGlobalConcurrency',
  'exportPrometheusMetrics',
  'getMeta',
])
  await method(queue, name);
await method(queue, 'getCountsPerPriority', [0, 5, 7]);
await method(queue, 'setGlobalConcurrency', 4);
await method(queue, 'getJobs', ['waiting', 'active', 'delayed', 'failed', 'completed', 'prioritized'], 0, 10, true);
await method(queue, 'getMetrics', 'completed', 0, 5);
await method(queue, 'getDependencies', 'root', 'pending', 0, 5);
await method(queue, 'removeDeduplicationKey', 'once');
await method(queue, 'getDeduplicationJobId', 'ttl');
await method(queue, 'retryJobs', { state: 'failed' });
await method(queue, 'retryJobs', { state: 'completed', count: 2 });
await method(queue, 'promoteJobs', { count: 3 });
await method(queue, 'removeOrphanedJobs', 100, 10);
await method(queue, 'rateLimit', 1000);
await method(queue, 'removeRateLimitKey');
for (const state of ['completed', 'failed', 'wait', 'active', 'delayed', 'prioritized', 'paused'])
  await method(queue, 'clean', 0, 2, state);
await method(queue, 'remove', 'my-id');
await method(queue, 'remove', 'root', { removeChildren: true });
const job = await call('add removed', () => queue.add('removed', {}));
await method(job, 'remove');
await method(queue, 'removeJobScheduler', 'cronly');
await method(queue, 'removeRepeatable', 'often', { every: 60000 });
for (const known of (await method(queue, 'getRepeatableJobs')) ?? [])
  await method(queue, 'removeRepeatableByKey', known.key);
const events = new QueueEvents(config.queue, { ...options, connection: client() });
await events.waitUntilReady();
const awaited = await call('add awaited', () => queue.add('awaited', {}, { lifo: true }));
const got = await next();
const ended = awaited && call('waitUntilFinished', () => awaited.waitUntilFinished(events, 3000));
if (got) await call('finish awaited', () => got.moveToCompleted('done', TOKEN, false));
await (got?.id === awaited?.id ? ended : undefined);
await method(queue, 'drain', true);
await method(queue, 'trimEvents', 10);
for (let turn = 0; turn < 30; turn += 1) {
  // no lock is to be left when all is obliterated
  const left = (await queue.getJobs(['active']))[0];
  if (!left) break;
  if (!(await call('finish left', () => left.moveToCompleted(1, TOKEN, false))))
    await method(left, 'moveToFailed', new Error('left'), '0', false);
}
await method(queue, 'obliterate', { force: false });
await events.close();
await worker.close();
await flows.close();
await queue.close();
say('ended');
for (const one of clients) one.disconnect?.();
process.exit(0);
