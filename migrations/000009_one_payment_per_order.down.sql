ALTER TABLE idempotency_keys
  DROP KEY one_payment_per_order,
  DROP COLUMN open_order;
