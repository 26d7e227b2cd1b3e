-- What was written in a stretch of time, for the comparison with the PSP's statement.
ALTER TABLE payments ADD KEY created (created_at);
