// bullmq's own spans, as its users have them: bullmq-otel on OpenTelemetry's SDK, exported over OTLP.
//
// config.otlp, where it is given: {url: the collector's, service: the name to be known by}. Without it nothing of this
// is loaded, and `options` is empty.
import { config, require } from './lib.mjs';

function provide({ url, service }) {
  const { BatchSpanProcessor, NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');
  const { OTLPTraceExporter } = require('@opentelemetry/exporter-trace-otlp-proto');
  const { resourceFromAttributes } = require('@opentelemetry/resources');
  const exporter = new OTLPTraceExporter({ url: `${url}/v1/traces` });
  const provider = new NodeTracerProvider({
    resource: resourceFromAttributes({ 'service.name': service }),
    spanProcessors: [new BatchSpanProcessor(exporter, { scheduledDelayMillis: 100 })],
  });
  provider.register();
  return provider;
}

const provider = config.otlp && provide(config.otlp);

// For a Queue's or a Worker's options.
export const options = provider ? { telemetry: new (require('bullmq-otel').BullMQOtel)({ tracerName: 'bullmq' }) } : {};

// Delivers what waits. Call it at the end.
export async function flush() {
  await provider?.shutdown();
}
