package webhook

import (
	"encoding/json"
	"fmt"

	"chargeonce/internal/payment"
	"chargeonce/internal/psp"
)

// MaxID is the most bytes that the id of an event may have: what the inbox's key holds.
const MaxID = 255

// maxType is the width of the inbox's column.
const maxType = 64

// statusAt says in which status an event of each type shows its charge. A type that is not here is unknown: it is kept and has
// no effect.
var statusAt = map[string]payment.Status{
	"charge.succeeded": payment.Succeeded,
	"charge.failed":    payment.Failed,
	"charge.canceled":  payment.Canceled,
	"charge.refunded":  payment.Refunded,
}

// Event is one event of the PSP, its signature checked.
type Event struct {
	// ID is the same in every delivery of the event.
	ID      string
	Type    string
	Payload []byte

	charge psp.Charge
	// problem says why the payload cannot be applied as it stands, "" when it can; the event is kept all the same. It is a
	// text and no error: an io.EOF of a JSON decoder would pass for a database connection that broke.
	problem string
}

// ParseEvent reads the body of an event. It does not fail: what cannot be read is an event that cannot be applied. Only
// a body whose signature holds may get here.
func ParseEvent(id string, payload []byte) Event {
	ev := Event{ID: id, Payload: payload}
	var body struct {
		Type string `json:"type"`
		Data struct {
			Charge json.RawMessage `json:"charge"`
		} `json:"data"`
	}
	if err := json.Unmarshal(payload, &body); err != nil {
		ev.problem = "the payload is no event: " + err.Error()
		// An unknown type may have data of another shape: it is still an event.
		var named struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(payload, &named) != nil {
			return ev
		}
		body.Type = named.Type
	}
	ev.Type = body.Type
	want, known := statusAt[ev.Type]
	switch {
	case ev.Type == "":
		ev.problem = "the payload names no type"
	case !known:
		ev.problem = ""
	case ev.problem == "":
		ev.charge, ev.problem = readCharge(ev.Type, want, body.Data.Charge)
	}
	return ev
}

func readCharge(eventType string, want payment.Status, raw json.RawMessage) (_ psp.Charge, problem string) {
	c, err := psp.ParseCharge(raw)
	if err != nil {
		return psp.Charge{}, "the charge cannot be read: " + err.Error()
	}
	if c.Status != string(want) {
		return c, fmt.Sprintf("a %s event shows its charge as %s", eventType, c.Status)
	}
	return c, ""
}

// known reports whether the event is of a type that has an effect, or cannot be read.
func (e Event) known() bool {
	_, ok := statusAt[e.Type]
	return ok || e.problem != ""
}

// userID is the user of ours that the event names, or 0.
func (e Event) userID() int64 { return max(e.charge.Metadata.UserID, 0) }

// chargeID is the charge's id, or nil when there is no charge that could be read. Package psp has held it to what the column takes.
func (e Event) chargeID() any {
	if e.charge.ID == "" {
		return nil
	}
	return e.charge.ID
}

// clip cuts s to n characters, for a column of that width.
func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n])
	}
	return s
}
