-- One row per (user, idempotency key): who may work on it now (lease, holder, locked_until) and, once done, what was answered.
-- lease is the fencing token: it grows with every take-over, and every later write must carry it together with holder.
-- locked_until is compared with this database's own clock and no other.
CREATE TABLE idempotency_keys (
  user_id       BIGINT         NOT NULL,
  idem_key      VARBINARY(255) NOT NULL,
  request_hash  BINARY(32)     NOT NULL,
  hash_version  SMALLINT       NOT NULL,
  status        ENUM('processing', 'done', 'parked') NOT NULL,
  lease         BIGINT         NOT NULL,
  holder        BINARY(16)     NOT NULL,
  locked_until  DATETIME(3)    NOT NULL,
  payment_id    VARCHAR(40)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  order_id      VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  amount        BIGINT         NOT NULL,
  currency      CHAR(3)      CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  response_code SMALLINT       NULL,
  response_body MEDIUMBLOB     NULL,
  parked_for    VARCHAR(255)   NULL,
  created_at    DATETIME(3)    NOT NULL,
  attempted_at  DATETIME(3)    NOT NULL,
  completed_at  DATETIME(3)    NULL,
  PRIMARY KEY (user_id, idem_key),
  KEY stuck (status, locked_until),
  KEY expired (status, completed_at),
  KEY payment (user_id, payment_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
