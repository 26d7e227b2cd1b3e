-- Who may call. Only the SHA-256 of a key is kept: 256 random bits need no salt and no slow hash.
CREATE TABLE api_keys (
  user_id    BIGINT      NOT NULL,
  id         VARCHAR(40) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  key_hash   BINARY(32)  NOT NULL,
  hint       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  created_at DATETIME(3) NOT NULL,
  revoked_at DATETIME(3) NULL,
  PRIMARY KEY (user_id, id),
  UNIQUE KEY key_hash (key_hash)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
