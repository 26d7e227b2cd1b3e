ALTER TABLE webhook_events DROP KEY event;
