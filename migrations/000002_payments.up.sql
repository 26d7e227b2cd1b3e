-- One row per charge that exists at the PSP. The order of status is its rank: it only ever rises.
-- charge_id is the last bar: whatever else fails, a charge is written once.
CREATE TABLE payments (
  user_id    BIGINT      NOT NULL,
  id         VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  order_id   VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  amount     BIGINT      NOT NULL,
  currency   CHAR(3)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  status     ENUM('pending', 'failed', 'succeeded', 'canceled', 'refunded') NOT NULL,
  charge_id  VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  created_at DATETIME(3) NOT NULL,
  updated_at DATETIME(3) NOT NULL,
  PRIMARY KEY (user_id, id),
  UNIQUE KEY charge (charge_id),
  KEY user_order (user_id, order_id, id),
  KEY pending (status, updated_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
