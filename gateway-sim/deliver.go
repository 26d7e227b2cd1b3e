package gatewaysim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// result is how one delivery ended.
type result struct {
	status int // 0 when there was no answer
	err    error
}

func (r result) ok() bool { return r.status >= 200 && r.status < 300 }

// deliver makes one try, unless the event has moved on since, and writes down how it went.
func (d *dispatcher) deliver(next delivery) {
	ev, found, err := d.sim.store.event(next.seq)
	if err != nil {
		d.sim.log.Error("an event cannot be read", "error", err)
		d.later(next)
		return
	}
	movedOn := ev.State != eventQueued || ev.Attempts != next.attempt
	if !found || (movedOn && !next.extra) {
		return
	}
	url := d.currentURL()
	if url == "" {
		d.later(next)
		return
	}
	d.try(next, ev, url)
}

// try sends the event and writes down how it went.
func (d *dispatcher) try(next delivery, ev event, url string) result {
	sent := d.send(ev, url)
	if d.sim.ctx.Err() != nil {
		// The process ends: as if it had never been sent. It is still in the queue.
		return sent
	}
	d.sim.stats.delivered(sent.ok(), next.extra)
	if err := d.record(next, sent); err != nil {
		d.sim.log.Error("a delivery cannot be written down", "event", ev.ID, "error", err)
		d.later(next)
	}
	return sent
}

// later puts a delivery off because of a fault of ours.
func (d *dispatcher) later(next delivery) {
	if next.extra {
		return
	}
	next.at = time.Now().Add(time.Second/2 + rand.N(time.Second/2))
	d.push(next)
}

// send makes the request.
func (d *dispatcher) send(ev event, url string) result {
	req, err := http.NewRequestWithContext(d.sim.ctx, http.MethodPost, url, bytes.NewReader(ev.Payload))
	if err != nil {
		return result{err: err}
	}
	now := time.Now()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "gateway-sim")
	req.Header.Set("Webhook-Id", ev.ID)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	req.Header.Set("Webhook-Signature", signature(d.signers(), ev.ID, now, ev.Payload))
	if ev.Traceparent != "" {
		req.Header.Set("Traceparent", ev.Traceparent)
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return result{err: err}
	}
	// Read what there is, so that the connection can be used again. The status alone is the answer.
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		d.sim.log.Debug("the rest of a receiver's answer was lost", "error", err)
	}
	return result{status: resp.StatusCode}
}

// signers returns who signs the delivery that starts now.
func (d *dispatcher) signers() []signer {
	only, bad := d.sim.faults.Load().planDelivery()
	switch {
	case bad:
		return []signer{strangerSigner()}
	case only != nil:
		return d.sim.signers[*only : *only+1]
	}
	return d.sim.signers
}

// record writes a delivery down: a 2xx ends the event's way, anything else puts it on the next place of the schedule. An
// extra delivery that fails changes nothing, and neither does one that is faster than the event's own, which would else not
// be made.
func (d *dispatcher) record(next delivery, sent result) error {
	var retry *delivery
	err := d.sim.store.update(func() (*entry, error) {
		_, rec, ok := d.sim.store.eventAt(next.seq)
		queued := rec.State == eventQueued
		if !ok || (next.extra && queued) || (!queued && !sent.ok()) {
			return nil, nil
		}
		rec.Attempts++
		rec.LastStatus, rec.LastError = sent.status, ""
		if sent.err != nil {
			rec.LastError = sent.err.Error()
		}
		schedule := d.sim.cfg.WebhookSchedule
		switch {
		case sent.ok():
			rec.State = eventDelivered
		case rec.Attempts >= len(schedule):
			rec.State = eventExhausted
		default:
			rec.NextAt = time.Now().Add(jitter(schedule[rec.Attempts], d.sim.cfg.WebhookSpeedup))
			retry = &delivery{seq: next.seq, at: rec.NextAt, attempt: rec.Attempts}
		}
		return &entry{Event: &rec}, nil
	})
	if err == nil && retry != nil {
		d.push(*retry)
	}
	return err
}

// jitter returns the wait of the schedule, sped up, give or take a tenth.
func jitter(wait time.Duration, speedup float64) time.Duration {
	return time.Duration(float64(wait) / speedup * (0.9 + 0.2*rand.Float64()))
}

// Delivery says how a delivery that [Sim.Deliver] made has ended. Status is 0 when there was no answer.
type Delivery struct {
	EventID string `json:"event_id"`
	Status  int    `json:"status"`
	Error   string `json:"error,omitempty"`
}

var errNoWebhookURL = errors.New("gateway-sim: no webhook URL is set")

// Deliver sends one event now, whatever its state, and waits for the answer. found is false when there is no such event.
func (s *Sim) Deliver(ctx context.Context, eventID string) (out Delivery, found bool, err error) {
	seq, ok := s.store.parseID(eventPrefix, eventID)
	if !ok {
		return out, false, nil
	}
	ev, found, err := s.store.event(seq)
	if !found || err != nil {
		return out, false, err
	}
	url := s.webhooks.currentURL()
	if url == "" {
		return out, true, errNoWebhookURL
	}
	select {
	case s.webhooks.slots <- struct{}{}:
		defer func() { <-s.webhooks.slots }()
	case <-ctx.Done():
		return out, true, ctx.Err()
	case <-s.ctx.Done():
		return out, true, errClosed
	}
	sent := s.webhooks.try(delivery{seq: seq, attempt: ev.Attempts, extra: ev.State != eventQueued}, ev, url)
	out = Delivery{EventID: eventID, Status: sent.status}
	if sent.err != nil {
		out.Error = sent.err.Error()
	}
	return out, true, nil
}

// DeliverQueued sends every event that still has to be delivered now, one after the other, and waits for the answers.
func (s *Sim) DeliverQueued(ctx context.Context) ([]Delivery, error) {
	sent := []Delivery{}
	for _, rec := range s.store.queued() {
		one, _, err := s.Deliver(ctx, s.store.newID(eventPrefix, rec.Seq))
		if err != nil {
			return sent, err
		}
		sent = append(sent, one)
	}
	return sent, nil
}
