ALTER TABLE payments DROP KEY created;
