-- One row per pass of reconciliation: what it did, and how much of it needs a person.
CREATE TABLE reconcile_runs (
  id           VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  started_at   DATETIME(3) NOT NULL,
  duration_ms  BIGINT      NOT NULL,
  needs_person BIGINT      NOT NULL,
  counts       JSON        NOT NULL,
  PRIMARY KEY (id),
  KEY started (started_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
