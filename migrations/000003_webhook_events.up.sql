-- The inbox. An event's row and its effect are written in one transaction, so an id that is here has had its effect, or
-- waits here (failed) to be tried again. user_id is the one that the signed event names, 0 when it names none of ours.
CREATE TABLE webhook_events (
  user_id         BIGINT         NOT NULL,
  event_id        VARBINARY(255) NOT NULL,
  type            VARCHAR(64)    NOT NULL,
  charge_id       VARCHAR(255)   CHARACTER SET ascii COLLATE ascii_bin NULL,
  payload         MEDIUMBLOB     NOT NULL,
  state           ENUM('applied', 'ignored', 'failed', 'dead') NOT NULL,
  attempts        INT            NOT NULL,
  last_error      VARCHAR(1000)  NULL,
  received_at     DATETIME(3)    NOT NULL,
  next_attempt_at DATETIME(3)    NULL,
  applied_at      DATETIME(3)    NULL,
  PRIMARY KEY (user_id, event_id),
  KEY retry (state, next_attempt_at),
  KEY received (received_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
