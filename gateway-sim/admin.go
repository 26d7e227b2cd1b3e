package gatewaysim

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

func ok(body any) answer { return answer{status: http.StatusOK, body: body} }

func (s *Sim) health(w http.ResponseWriter, _ *http.Request) {
	s.write(w, ok(map[string]string{"status": "ok"}))
}

func (s *Sim) getFaults(w http.ResponseWriter, _ *http.Request) { s.write(w, ok(s.Faults())) }

func (s *Sim) putFaults(w http.ResponseWriter, r *http.Request) {
	body, a, bad := readBody(w, r)
	if bad {
		s.write(w, a)
		return
	}
	faults, err := ParseFaults(body)
	if err == nil {
		err = s.SetFaults(faults)
	}
	var wrong *FieldError
	switch {
	case errors.As(err, &wrong):
		s.write(w, failure(http.StatusBadRequest, Error{Type: "invalid_request", Code: wrong.Field, Message: wrong.Error()}))
		return
	case err != nil:
		s.write(w, invalidRequest(err.Error()))
		return
	}
	s.getFaults(w, r)
}

func (s *Sim) deleteFaults(w http.ResponseWriter, r *http.Request) {
	if err := s.ClearFaults(); err != nil {
		s.write(w, invalidRequest(err.Error()))
		return
	}
	s.getFaults(w, r)
}

// webhookTarget is the body of /admin/webhooks.
type webhookTarget struct {
	URL string `json:"url"`
}

func (s *Sim) getWebhooks(w http.ResponseWriter, _ *http.Request) {
	s.write(w, ok(webhookTarget{s.webhooks.currentURL()}))
}

func (s *Sim) putWebhooks(w http.ResponseWriter, r *http.Request) {
	var target webhookTarget
	if !s.decodeBody(w, r, &target) {
		return
	}
	if err := s.SetWebhookURL(target.URL); err != nil {
		s.write(w, invalidRequest(err.Error()))
		return
	}
	s.getWebhooks(w, r)
}

// postDeliver sends the event that the body names as {"event_id": …}, or with an empty object all that are queued.
func (s *Sim) postDeliver(w http.ResponseWriter, r *http.Request) {
	var what struct {
		EventID string `json:"event_id"`
	}
	if !s.decodeBody(w, r, &what) {
		return
	}
	var sent []Delivery
	var err error
	if what.EventID == "" {
		sent, err = s.DeliverQueued(r.Context())
	} else {
		var one Delivery
		var found bool
		one, found, err = s.Deliver(r.Context(), what.EventID)
		if err == nil && !found {
			s.write(w, failure(http.StatusNotFound, Error{Type: "event_not_found", Message: "There is no such event."}))
			return
		}
		sent = []Delivery{one}
	}
	if err != nil {
		s.write(w, failure(http.StatusConflict, Error{Type: "not_delivered", Message: err.Error()}))
		return
	}
	s.write(w, ok(map[string][]Delivery{"deliveries": sent}))
}

// postVoid voids a charge, as the bank behind a PSP may.
func (s *Sim) postVoid(w http.ResponseWriter, r *http.Request) {
	c := &call{r: r}
	a := s.workVoid(c)
	s.publish(c.events)
	s.write(w, a)
}

// getStats answers the counters; with ?key=K those of one key alone, with ?keys=none those of no key.
func (s *Sim) getStats(w http.ResponseWriter, r *http.Request) {
	stats := s.Stats()
	query := r.URL.Query()
	switch {
	case query.Has("key"):
		key := query.Get("key")
		stats.Keys = map[string]KeyStats{key: stats.Keys[key]}
	case query.Get("keys") == "none":
		stats.Keys = nil
	}
	s.write(w, ok(stats))
}

func (s *Sim) deleteStats(w http.ResponseWriter, r *http.Request) {
	s.ResetStats()
	s.getStats(w, r)
}

func (s *Sim) getRequests(w http.ResponseWriter, _ *http.Request) {
	s.write(w, ok(map[string][]Request{"requests": s.Requests()}))
}

// decodeBody reads a JSON body whose members are all known; false says that it has answered 400.
func (s *Sim) decodeBody(w http.ResponseWriter, r *http.Request, into any) bool {
	body, a, bad := readBody(w, r)
	if !bad {
		if err := unmarshalStrict(body, into); err != nil {
			a, bad = invalidRequest(err.Error()), true
		}
	}
	if bad {
		s.write(w, a)
	}
	return !bad
}

var errTrailing = errors.New("something follows the JSON object")

// unmarshalStrict refuses unknown members and anything behind the object.
func unmarshalStrict(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errTrailing
	}
	return nil
}
