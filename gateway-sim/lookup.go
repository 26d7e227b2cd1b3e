package gatewaysim

import (
	"encoding/json"
	"net/http"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
)

// nothingToPrepare is for requests that are whatever they are.
func nothingToPrepare(*call) (answer, bool) { return answer{}, false }

// workGet answers GET /charges/{id}.
func (s *Sim) workGet(c *call) answer {
	var rec chargeRecord
	found := false
	err := s.store.view(func(tx *bolt.Tx) (err error) {
		rec, found, err = s.store.chargeByID(tx, c.r.PathValue("id"))
		return err
	})
	switch {
	case err != nil:
		return s.storageError(err)
	case !found:
		return chargeNotFound()
	}
	return answer{status: http.StatusOK, body: rec.Charge}
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
	var known lookup
	found := false
	err := s.store.view(func(tx *bolt.Tx) (err error) {
		known, found, err = s.knownOf(tx, key)
		return err
	})
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

// knownOf reads the verdict on key from the file.
func (s *Sim) knownOf(tx *bolt.Tx, key string) (known lookup, found bool, err error) {
	rec, found, err := s.keyRecord(tx, key)
	if !found || err != nil {
		return known, false, err
	}
	known = lookup{IdempotencyKey: key, Result: rec.Result, Error: rec.Error}
	if rec.Result == ResultCharged {
		charge, err := mustCharge(tx, rec.Charge)
		if err != nil {
			return known, false, err
		}
		known.Charge = &charge.Charge
	}
	return known, true, nil
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
// that begins meanwhile, whichever of the two commits first wins, and the other one reads it.
func (s *Sim) workCancel(c *call) answer {
	if s.isBusy(c.key) {
		return s.lookUp(c.key)
	}
	var known lookup
	err := s.store.update(func(tx *bolt.Tx) (err error) {
		var found bool
		if known, found, err = s.knownOf(tx, c.key); found || err != nil {
			return err
		}
		known = lookup{IdempotencyKey: c.key, Result: ResultCanceled}
		return put(tx, bucketKeys, []byte(c.key), keyRecord{Result: ResultCanceled, CreatedAt: time.Now()})
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
	out := page{Data: []Charge{}}
	err := s.store.view(func(tx *bolt.Tx) error {
		first, err := firstAfter(tx, r.createdAfter)
		if err != nil {
			return err
		}
		first = max(first, r.afterSeq+1)
		charges := tx.Bucket(bucketCharges).Cursor()
		for k, v := charges.Seek(seqKey(first)); k != nil; k, v = charges.Next() {
			if len(out.Data) == r.limit {
				out.NextCursor = strings.Replace(out.Data[r.limit-1].ID, chargePrefix, cursorPrefix, 1)
				return nil
			}
			rec, err := decode[chargeRecord](v)
			if err != nil {
				return err
			}
			out.Data = append(out.Data, rec.Charge)
		}
		return nil
	})
	if err != nil {
		return s.storageError(err)
	}
	return answer{status: http.StatusOK, body: out}
}

// firstAfter returns the sequence of the first charge created after t. Sequences are dense and rise with time, so it is
// found by halving.
func firstAfter(tx *bolt.Tx, t time.Time) (uint64, error) {
	if t.IsZero() {
		return 1, nil
	}
	var failed error
	n := sort.Search(int(tx.Bucket(bucketCharges).Sequence()), func(i int) bool {
		rec, err := mustCharge(tx, uint64(i)+1)
		if err != nil {
			failed = err
		}
		return rec.CreatedAt.After(t)
	})
	return uint64(n) + 1, failed
}
