// Says what an unmodified bullmq reads of some jobs, and which workers it sees. argv[2] is the configuration:
//   {port, adapter, username?, password?, ca?, prefix, queue, read: [job id, …]}
import { bullmq, config, connection, say } from './lib.mjs';

const client = connection(config);
const queue = new bullmq.Queue(config.queue, { connection: client, prefix: config.prefix });
for (const id of config.read) {
  const job = await queue.getJob(id);
  const { name, data, attemptsMade, returnvalue, failedReason, delay, stalledCounter, processedBy, opts } = job;
  const told = { name, data, attemptsMade, returnvalue, failedReason, delay, stalledCounter, processedBy };
  const more = { state: await job.getState(), backoff: opts.backoff, traces: job.stacktrace.length };
  say('read', { job: id, ...told, ...more });
}
const workers = (await queue.getWorkers()).map(worker => worker.rawname);
say('counts', { counts: await queue.getJobCounts(), workers });
await queue.close();
if (client.disconnect) await client.disconnect();
process.exit(0);
