package gatewaysim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// The first line of the file names its format and its id, 8 random letters and digits.
const (
	headerStart = `{"format":"gateway-sim ledger 1","file_id":"`
	headerEnd   = "\"}\n"
)

func headerOf(fileID string) []byte { return []byte(headerStart + fileID + headerEnd) }

func parseHeader(line []byte) (fileID string, ok bool) {
	id, began := bytes.CutPrefix(line, []byte(headerStart))
	id, ended := bytes.CutSuffix(id, []byte(headerEnd))
	return string(id), began && ended && len(id) > 0
}

// beginsHeader reports whether text is a header that was cut, by a kill that came within the first write.
func beginsHeader(text []byte) bool {
	return bytes.HasPrefix([]byte(headerStart), text) || bytes.HasPrefix(text, []byte(headerStart))
}

// entry is each further line of the file: one change, whole. It is a charge that was made or has changed, with the event that
// tells of it; or a verdict that made no charge; or how an event's delivery went.
type entry struct {
	Charge      *Charge        `json:"charge,omitempty"`      // as it is from here on
	Seq         uint64         `json:"seq,omitempty"`         // of the charge; sequences are dense, from 1
	Traceparent string         `json:"traceparent,omitempty"` // of the request that made the charge
	Settles     *settlement    `json:"settles,omitempty"`     // of a charge that began as pending
	Verdict     *verdictRecord `json:"verdict,omitempty"`
	Event       *eventRecord   `json:"event,omitempty"`

	wire []byte // Charge as encode has written it
}

// settlement is how and when a pending charge ends.
type settlement struct {
	To string    `json:"to"`
	At time.Time `json:"at"`
}

// verdictRecord is a verdict on an idempotency key that made no charge: a decline, a rejection or a technical cancel.
type verdictRecord struct {
	Key           string    `json:"key"`
	Result        string    `json:"result"`
	Amount        int64     `json:"amount,omitempty"`
	Currency      string    `json:"currency,omitempty"`
	PaymentMethod string    `json:"payment_method,omitempty"`
	Error         *Error    `json:"error,omitempty"` // when declined or rejected
	CreatedAt     time.Time `json:"created_at"`
}

// eventRecord is how far the delivery of an event has come.
type eventRecord struct {
	Seq        uint64    `json:"seq"` // dense, from 1
	State      string    `json:"state"`
	Attempts   int       `json:"attempts,omitempty"`
	NextAt     time.Time `json:"next_at"`
	LastStatus int       `json:"last_status,omitempty"`
	LastError  string    `json:"last_error,omitempty"`
}

// The states of an event's delivery.
const (
	eventQueued    = "queued"
	eventDelivered = "delivered"
	eventDropped   = "dropped"   // by a fault: never sent
	eventExhausted = "exhausted" // the schedule has ended
)

// encode returns e as a line. The charge is encoded apart, once: the same bytes are the answer to whoever made it.
func (e *entry) encode() (line []byte, err error) {
	if e.Charge == nil {
		line, err = json.Marshal(e)
		return append(line, '\n'), err
	}
	if e.wire, err = json.Marshal(e.Charge); err != nil {
		return nil, err
	}
	rest := *e
	rest.Charge = nil
	members, err := json.Marshal(rest) // never empty: a charge has a sequence
	if err != nil {
		return nil, err
	}
	line = append(line, `{"charge":`...)
	line = append(line, e.wire...)
	line = append(line, ',')
	line = append(line, members[1:]...)
	return append(line, '\n'), nil
}

func decode(line []byte) (e entry, err error) {
	if err := json.Unmarshal(line, &e); err != nil {
		return e, fmt.Errorf("gateway-sim: unreadable entry: %w", err)
	}
	return e, nil
}

// decidedAt says when e, which is the verdict on a key, was made.
func (e *entry) decidedAt() time.Time {
	if e.Charge != nil {
		return e.Charge.CreatedAt.Time
	}
	return e.Verdict.CreatedAt
}

// isFor reports whether e, which is the verdict on a key, was made for a request like r.
func (e *entry) isFor(r chargeRequest) bool {
	if v := e.Verdict; v != nil {
		return v.Amount == r.Amount && v.Currency == r.Currency && v.PaymentMethod == r.PaymentMethod
	}
	return e.Charge.Amount == r.Amount && e.Charge.Currency == r.Currency && e.Charge.PaymentMethod == r.PaymentMethod
}
