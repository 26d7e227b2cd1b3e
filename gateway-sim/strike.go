package gatewaysim

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// The outcomes of requests that got no whole answer; the others' is their status. Each of these closes the connection.
const (
	outcomeAborted = "aborted" // a bug of ours
	outcomeHung    = "hung"
	outcomeDropped = "dropped"
	outcomeCut     = "cut"
)

// closesConnection reports whether a request with that outcome has to end without a further byte.
func closesConnection(outcome string) bool {
	switch outcome {
	case outcomeAborted, outcomeHung, outcomeDropped, outcomeCut:
		return true
	}
	return false
}

// strikeBefore answers, or doesn't, a request that has had no effect and will have none.
func (s *Sim) strikeBefore(w http.ResponseWriter, r *http.Request, p plan) (outcome string) {
	switch p.before.Fault {
	case Hang:
		s.hang(r.Context(), p.cleared)
		return outcomeHung
	case DropConnection:
		return outcomeDropped
	}
	return s.faultyError(w, p.before, http.StatusServiceUnavailable)
}

// loseAnswer keeps the caller from learning a, whose effect is in the file.
func (s *Sim) loseAnswer(w http.ResponseWriter, r *http.Request, a answer, p plan) (outcome string) {
	switch p.lose.How {
	case LostByHang:
		s.hang(r.Context(), p.cleared)
		return outcomeHung
	case LostByError:
		return s.faultyError(w, p.lose, http.StatusInternalServerError)
	case LostByCut:
		return s.cutBody(w, a)
	case LostByProxy:
		return s.proxyPage(w, cmp.Or(p.lose.Status, http.StatusBadGateway))
	case LostByGarbage:
		return s.writeBytes(w, http.StatusOK, "application/json", []byte(`{"id":"ch_`+"\x00\xff not JSON"))
	}
	return outcomeDropped
}

// faultyError sends the status and the Retry-After of a rule.
func (s *Sim) faultyError(w http.ResponseWriter, rule *Rule, status int) string {
	if wait := time.Duration(rule.RetryAfter); wait > 0 {
		value := strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10)
		if rule.RetryAfterDate {
			value = time.Now().Add(wait).UTC().Format(http.TimeFormat)
		}
		w.Header().Set("Retry-After", value)
	}
	return s.write(w, failure(cmp.Or(rule.Status, status), Error{Type: "gateway_fault", Message: "A fault was asked for."}))
}

// cutBody announces all of a, sends half and lets the connection go.
func (s *Sim) cutBody(w http.ResponseWriter, a answer) string {
	body, err := a.render()
	if err != nil {
		s.log.Error("answer does not render", "error", err)
		return outcomeDropped
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	s.writeBytes(w, a.status, "application/json", body[:len(body)/2])
	if err := http.NewResponseController(w).Flush(); err != nil {
		s.log.Debug("caller left before its answer", "error", err)
	}
	return outcomeCut
}

// proxyPage answers as a proxy between caller and PSP does: HTML that says nothing about the charge.
func (s *Sim) proxyPage(w http.ResponseWriter, status int) string {
	title := fmt.Sprintf("%d %s", status, http.StatusText(status))
	body := fmt.Sprintf("<html><head><title>%s</title></head><body><h1>%s</h1><hr>proxy</body></html>\n", title, title)
	return s.writeBytes(w, status, "text/html; charset=utf-8", []byte(body))
}

// falsify returns a with the charge in it, if there is one, changed in the field that fault names.
func falsify(a answer, fault Fault) answer {
	switch body := a.body.(type) {
	case Charge:
		a.body, a.rendered = falseCharge(body, fault), nil
	case lookup:
		if body.Charge != nil {
			changed := falseCharge(*body.Charge, fault)
			body.Charge = &changed
			a.body = body
		}
	}
	return a
}

func falseCharge(c Charge, fault Fault) Charge {
	switch fault {
	case WrongAmount:
		c.Amount++
	case WrongCurrency:
		c.Currency = "XTS" // ISO 4217's code for tests
	case WrongKey:
		c.IdempotencyKey += "-another"
	}
	return c
}
