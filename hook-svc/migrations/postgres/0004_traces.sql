-- Position in the trace of the request that caused the event, as W3C's `traceparent`; NULL outside a sampled trace.
ALTER TABLE events ADD COLUMN trace_parent TEXT;
