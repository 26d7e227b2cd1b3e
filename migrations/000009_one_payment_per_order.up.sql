-- open_order is the order that a key is paying or has paid, NULL when the guard was off at the claim, and again once the order is free
-- (a refusal, a failed charge). With it the claim's one INSERT has two arbiters: one row per key, and one open key per order.
ALTER TABLE idempotency_keys
  ADD COLUMN open_order VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  ADD UNIQUE KEY one_payment_per_order (user_id, open_order);
