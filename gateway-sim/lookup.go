package gatewaysim

import (
	"encoding/json"
	"net/http"
	"net/url"
	"sort"
	"strconv"
	"time"
)

// nothingToPrepare is for requests that are whatever they are.
func nothingToPrepare(*call) (answer, bool) { return answer{}, false }

// workGet answers GET /charges/{id}.
func (s *Sim) workGet(c *call) answer {
	e, found, err := s.store.chargeByID(c.r.PathValue("id"))
	switch {
	case err != nil:
		return s.storageError(err)
	case !found:
		return chargeNotFound()
	}
	return answer{status: http.StatusOK, body: *e.Charge}
}

// prepareList checks a GET /charges, which is a look-up by key or a page of the statement.
func (s *Sim) prepareList(c *call) (answer, bool) {
	query := c.r.URL.Query()
	if query.Has("idempotency_key") {
		c.key = query.Get("idempotency_key")
		if !isKey(c.key) {
			return invalidRequest("idempotency_key is not a key."), true
		}
		return answer{}, false
	}
	if _, problem := s.parseStatement(query); problem != "" {
		return invalidRequest(problem), true
	}
	return answer{}, false
}

func (s *Sim) workList(c *call) answer {
	if c.key != "" {
		return s.lookUp(c.key)
	}
	request, problem := s.parseStatement(c.r.URL.Query())
	if problem != "" {
		return invalidRequest(problem)
	}
	return s.statement(request)
}

// lookUp says what is known of a key. It looks at the keys being worked on first, then at the file: the other way round, a
// key that finishes in between would seem never to have been seen.
func (s *Sim) lookUp(key string) answer {
	busy := s.isBusy(key)
	known, found, err := s.knownOf(key)
	switch {
	case err != nil:
		return s.storageError(err)
	case found:
		return answer{status: http.StatusOK, body: known}
	case busy:
		return answer{status: http.StatusOK, body: lookup{IdempotencyKey: key, Result: ResultProcessing}}
	}
	return failure(http.StatusNotFound, Error{Type: "key_not_found", IdempotencyKey: key, Message: "The key was never seen."})
}

// knownOf reads the verdict on key, and the charge that it made as it is now.
func (s *Sim) knownOf(key string) (known lookup, found bool, err error) {
	e, found, err := s.verdict(key)
	if !found || err != nil {
		return known, false, err
	}
	if e.Charge == nil {
		return lookup{IdempotencyKey: key, Result: e.Verdict.Result, Error: e.Verdict.Error}, true, nil
	}
	e, err = s.store.mustCharge(e.Seq)
	return lookup{IdempotencyKey: key, Result: ResultCharged, Charge: e.Charge}, err == nil, err
}

// prepareCancel checks a technical cancel.
func (s *Sim) prepareCancel(c *call) (answer, bool) {
	var body struct {
		IdempotencyKey string `json:"idempotency_key"`
	}
	if err := json.Unmarshal(c.body, &body); err != nil || !isKey(body.IdempotencyKey) {
		return invalidRequest("idempotency_key must be 1 to 255 printable ASCII characters."), true
	}
	c.key = body.IdempotencyKey
	return answer{}, false
}

// workCancel closes a key that was never seen. A key that is being worked on is seen: it stays as it is. Against a charge
// that begins meanwhile, whichever of the two is written first wins, and the other one reads it.
func (s *Sim) workCancel(c *call) answer {
	if s.isBusy(c.key) {
		return s.lookUp(c.key)
	}
	var known lookup
	err := s.store.update(func() (*entry, error) {
		var found bool
		var err error
		if known, found, err = s.knownOf(c.key); found || err != nil {
			return nil, err
		}
		known = lookup{IdempotencyKey: c.key, Result: ResultCanceled}
		return &entry{Verdict: &verdictRecord{Key: c.key, Result: ResultCanceled, CreatedAt: time.Now()}}, nil
	})
	if err != nil {
		return s.storageError(err)
	}
	return answer{status: http.StatusOK, body: known}
}

const (
	defaultLimit = 100
	maxLimit     = 1000
	cursorPrefix = "cur_"
)

// statementRequest asks for limit charges whose sequence is above afterSeq and whose creation is after createdAfter.
type statementRequest struct {
	createdAfter time.Time
	afterSeq     uint64
	limit        int
}

func (s *Sim) parseStatement(query url.Values) (r statementRequest, problem string) {
	r.limit = defaultLimit
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxLimit {
			return r, "limit must be from 1 to 1000."
		}
		r.limit = n
	}
	if text := query.Get("created_after"); text != "" {
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return r, "created_after is not a time of RFC 3339."
		}
		r.createdAfter = t
	}
	if text := query.Get("cursor"); text != "" {
		seq, ok := s.store.parseID(cursorPrefix, text)
		if !ok {
			return r, "cursor is none that this gateway gave out."
		}
		r.afterSeq = seq
	}
	return r, ""
}

// statement reads one page. Charges only ever come behind the newest, so a cursor, which names the last charge that was
// shown, skips nothing and repeats nothing while more arrive.
func (s *Sim) statement(r statementRequest) answer {
	last := s.store.lastCharge()
	seq, err := s.firstAfter(r.createdAfter, last)
	if err != nil {
		return s.storageError(err)
	}
	out := page{Data: []Charge{}}
	for seq = max(seq, r.afterSeq+1); seq <= last; seq++ {
		if len(out.Data) == r.limit {
			out.NextCursor = s.store.newID(cursorPrefix, seq-1)
			break
		}
		e, err := s.store.mustCharge(seq)
		if err != nil {
			return s.storageError(err)
		}
		out.Data = append(out.Data, *e.Charge)
	}
	return answer{status: http.StatusOK, body: out}
}

// firstAfter returns the sequence of the first charge, of those up to last, that was created after t. Sequences are dense and
// rise with time, so it is found by halving.
func (s *Sim) firstAfter(t time.Time, last uint64) (uint64, error) {
	if t.IsZero() {
		return 1, nil
	}
	var failed error
	n := sort.Search(int(last), func(i int) bool {
		e, err := s.store.mustCharge(uint64(i) + 1)
		if err != nil {
			failed = err
			return true
		}
		return e.Charge.CreatedAt.After(t)
	})
	return uint64(n) + 1, failed
}
