-- traceparent names the trace of the request that last set out to charge under the key (W3C Trace Context), so that one who looks at
-- the row finds the trace, and reconciliation's spans can link to it. NULL when the request was not traced.
ALTER TABLE idempotency_keys
  ADD COLUMN traceparent CHAR(55) CHARACTER SET ascii COLLATE ascii_bin NULL;
