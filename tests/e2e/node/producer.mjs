// Adds jobs and flows with an unmodified bullmq, says their ids, and ends. argv[2] is the configuration:
//   {port, adapter, username?, password?, ca?, prefix, queue, jobs: [{name, data, opts}], flows: [FlowJob, …],
//    otlp?: see telemetry.mjs}
import { bullmq, config, connection, say } from './lib.mjs';
import * as telemetry from './telemetry.mjs';

const { FlowProducer, Queue } = bullmq;

const client = connection(config);
const options = { connection: client, prefix: config.prefix, ...telemetry.options };

const queue = new Queue(config.queue, options);
for (const { name, data, opts } of config.jobs ?? []) {
  const job = await queue.add(name, data, opts);
  say('added', { job: job.id });
}
if (config.flows?.length) {
  const producer = new FlowProducer(options);
  for (const flow of config.flows) {
    const { job } = await producer.add(flow);
    say('added', { job: job.id });
  }
  await producer.close();
}
await queue.close();
if (client.disconnect) await client.disconnect();
await telemetry.flush();
process.exit(0);
