// Two workers by hand that use one token, as some users do: the first is too slow, the second gets its job. argv[2] as
// producer.mjs's. What each is told when it finishes, and that the queue goes on: {event: 'told', who, job, message?}
import { bullmq, config, connection, say } from './lib.mjs';

const { Queue, Worker } = bullmq;
const TOKEN = 'SAME';
const clients = [];
const common = { prefix: config.prefix };
function client() {
  clients.push(connection(config));
  return clients.at(-1);
}
function hand(lockDuration) {
  return new Worker(config.queue, null, {
    ...common,
    connection: client(),
    autorun: false,
    lockDuration,
    stalledInterval: 60,
  });
}
async function finish(who, job) {
  try {
    await job.moveToCompleted(who, TOKEN, false);
    say('told', { who, job: job.id });
  } catch (error) {
    say('told', { who, job: job.id, message: error.message });
  }
}
async function until(look) {
  for (;;) {
    const found = await look();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const queue = new Queue(config.queue, { ...common, connection: client() });
await queue.add('first', {}, { jobId: 'one' });
const [slow, quick] = [hand(80), hand(60000)];
const lost = await slow.getNextJob(TOKEN, { block: false });
say('took', { who: 'slow', job: lost.id });
const taken = await until(async () => {
  await (quick.moveStalledJobsToWait?.() ?? quick.runStalledJobsCheck());
  return quick.getNextJob(TOKEN, { block: false });
});
say('took', { who: 'quick', job: taken.id });
await finish('slow', lost);
await finish('quick', taken);
await queue.add('second', {}, { jobId: 'two' });
slow.opts.lockDuration = 60000;
await finish('slow', await slow.getNextJob(TOKEN, { block: false }));
await until(async () => (await queue.getJobCounts('completed')).completed === 2);
say('result', { value: (await queue.getJob('one')).returnvalue });
await slow.close();
await quick.close();
await queue.close();
say('ended');
for (const one of clients) one.disconnect?.();
process.exit(0);
