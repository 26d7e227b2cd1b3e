-- An event id is refused with another payload, whatever user that one names. The primary key, led by the user, cannot find it.
ALTER TABLE webhook_events ADD KEY event (event_id);
