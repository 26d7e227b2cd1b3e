package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"chargeonce/internal/mysql"
)

// edit changes one place of one file.
type edit struct{ file, old, new string }

// mutant is a build that is broken on purpose, and how the checker finds out.
type mutant struct {
	name  string
	edits []edit
	// promise is the one that it breaks.
	promise  int
	coalesce Coalesce // default none
	clients  int      // default 24
	// faults strike from the beginning to the end, one after another of the same kind.
	faults []string
	pace   pace
}

// The whole condition under which a key's row may be written, and one that holds always but takes the same arguments.
const (
	fence   = `status = 'processing' AND lease = ? AND holder = ?`
	noFence = `(lease = ? OR holder = ? OR TRUE)`
)

var mutants = []mutant{
	{
		name: "a PSP key of its own for every attempt", promise: 1,
		edits: []edit{{"internal/payment/flow.go", `idempotency.PSPKey(p.UserID, p.Key),`, `idempotency.PSPKey(p.UserID, p.Key) + NewID(),`}},
		pace: pace{calm: pspFaults{Rules: []pspRule{
			{Fault: "lose_answer", How: "error", Rate: 0.3, Match: map[string]any{"method": "POST", "path": "/charges"}},
		}}},
	},
	{
		name: "a finish without lease, holder and status", promise: 5, faults: []string{"leases-over"},
		edits: []edit{{"internal/idempotency/store.go",
			"completed_at = NOW(3), open_order = IF(?, NULL, open_order)\n\t\tWHERE user_id = ? AND idem_key = ? AND " + fence,
			"completed_at = NOW(3), open_order = IF(?, NULL, open_order)\n\t\tWHERE user_id = ? AND idem_key = ? AND " + noFence}},
		pace: pace{calm: pspFaults{Latency: "uniform 50ms 300ms"}},
	},
	{
		name: "a coalesced finish without lease and holder", promise: 5, faults: []string{"leases-over", "mysql-slow"},
		coalesce: CoalesceAll, clients: 64, // what waits is what is coalesced
		edits: []edit{{"internal/idempotency/finish.go",
			"(user_id = ? AND idem_key = ? AND lease = ? AND holder = ?)", "(user_id = ? AND idem_key = ? AND " + noFence + ")"}},
		pace: pace{calm: pspFaults{Latency: "uniform 50ms 300ms"}},
	},
	{
		name: "a release without lease and holder", promise: 5, faults: []string{"leases-over"},
		edits: []edit{{"internal/idempotency/store.go",
			"SET locked_until = NOW(3)\n\t\tWHERE user_id = ? AND idem_key = ? AND " + fence,
			"SET locked_until = NOW(3)\n\t\tWHERE user_id = ? AND idem_key = ? AND status = 'processing' AND " + noFence}},
		pace: pace{calm: pspFaults{Latency: "uniform 50ms 300ms", Rules: []pspRule{{Fault: "lose_answer", How: "error", Rate: 0.5}}}},
	},
	{
		name: "a claim by SELECT and then REPLACE", promise: 5, faults: []string{"mysql-slow"},
		edits: []edit{
			{"internal/idempotency/insert.go", "\t\tINSERT INTO idempotency_keys\n", "\t\tREPLACE INTO idempotency_keys\n"},
			{"internal/idempotency/store.go", "\t\tif insert {\n", "\t\tif _, seen := s.Read(ctx, c.UserID, c.Key); insert && errors.Is(seen, ErrNotFound) {\n"},
		},
	},
	{
		name: "an event's id committed before its effect", promise: 7, faults: []string{"mysql-slow"},
		edits: []edit{{"webhook/inbox.go", `		if err := insert(ctx, tx, ev, state, nil, nil); err != nil {
			return err
		}
		if state == Ignored {
`, `		return insert(ctx, tx, ev, state, nil, nil)
	})
	if err != nil {
		return out, err
	}
	err = mysql.WithTx(ctx, in.db, func(tx mysql.Querier) error {
		if out == OutcomeIgnored {
`}},
		pace: pace{calm: pspFaults{Webhooks: map[string]any{"early": true}}},
	},
	{
		name: "a technical cancel that refunds", promise: 1, faults: []string{"leases-over"},
		edits: []edit{{"gateway-sim/lookup.go", `		if known, found, err = s.knownOf(c.key); found || err != nil {
			return nil, err
		}
`, `		known, found, err = s.knownOf(c.key)
		if err == nil && known.Charge != nil {
			e, _, err := s.store.chargeByID(known.Charge.ID)
			if err != nil {
				return nil, err
			}
			c.events = append(c.events, s.move(&e, StatusRefunded))
			return &e, nil
		}
		if found || err != nil {
			return nil, err
		}
`}},
		// A cancel that takes its time leaves the key's next holder time to charge. A 401 is nobody's failure: no breaker opens.
		pace: pace{grace: time.Nanosecond, abandonAfter: time.Nanosecond, calm: pspFaults{Rules: []pspRule{
			{Fault: "latency", Latency: "fixed 400ms", Match: map[string]any{"path": "/charges/cancel"}},
			{Fault: "error", Status: 401, Rate: 0.6, Match: map[string]any{"method": "POST", "path": "/charges", "exact": true}},
		}}},
	},
	{
		name: "a 404 and a 401 taken for refusals", promise: 4,
		edits: []edit{{"internal/psp/classify.go", "func undocumented(a answer, why error) verdict {\n", `func undocumented(a answer, why error) verdict {
	if a.status == http.StatusNotFound || a.status == http.StatusUnauthorized {
		return verdict{kind: Rejected, answered: true, effect: success}
	}
`}},
		pace: pace{calm: pspFaults{Rules: []pspRule{
			{Fault: "error", Status: 404, Rate: 0.1, Match: map[string]any{"method": "POST", "path": "/charges"}},
			{Fault: "error", Status: 401, Rate: 0.1, Match: map[string]any{"method": "POST", "path": "/charges"}},
		}}},
	},
	{
		name: "reads that are not scoped by user", promise: 8,
		edits: []edit{{"internal/payment/store.go", "FROM payments WHERE user_id = ? AND id = ?`", "FROM payments WHERE ? > 0 AND id = ?`"}},
	},
}

// build makes the mutant: the shipped binaries, one of them broken. The sources stay as they are: the changed ones stand elsewhere, and
// the compiler is told.
func (m mutant) build(t *testing.T) binaries {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	texts := map[string]string{}
	for _, e := range m.edits {
		path := filepath.Join(root, e.file)
		if _, read := texts[path]; !read {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts[path] = string(text)
		}
		if n := strings.Count(texts[path], e.old); n != 1 {
			t.Fatalf("%s has %d places that read\n%s\nThe mutant needs one: change it along with the code.", e.file, n, e.old)
		}
		texts[path] = strings.Replace(texts[path], e.old, e.new, 1)
	}
	replace := map[string]string{}
	for path, text := range texts {
		replace[path] = filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(replace[path], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	bin, name := shipped, "chargeonce"
	broken := &bin.chargeOnce
	if strings.HasPrefix(m.edits[0].file, "gateway-sim/") {
		name, broken = "gateway-sim", &bin.gatewaySim
	}
	*broken = filepath.Join(dir, name)
	if err := build(*broken, "-overlay", file, "chargeonce/cmd/"+name); err != nil {
		t.Fatal(err)
	}
	return bin
}

func TestCheckerFindsWhatIsBroken(t *testing.T) {
	t.Parallel()
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			bin := m.build(t)
			// A few seconds of chance: on a busy machine one attack may pass by the fault.
			for seed := range uint64(mutantAttacks) {
				found, told := m.attack(t, bin, seed+1)
				t.Logf("seed %d: violations by promise: %v", seed+1, found)
				if found[m.promise] > 0 {
					return
				}
				t.Logf("not found to break promise %d\n%s", m.promise, told)
			}
			t.Errorf("not found to break promise %d in %d attacks", m.promise, mutantAttacks)
		})
	}
}

// mutantAttacks bounds the attacks on one mutant.
const mutantAttacks = 3

// attack counts the violations that one attack finds, by promise.
func (m mutant) attack(t *testing.T, bin binaries, seed uint64) (found map[int]int, told string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	cfg := m.config(bin, mysql.NewEmptyTestDB(t))
	cfg.Seed = seed
	res, told := attackOf(ctx, t, cfg)
	found = map[int]int{}
	for _, v := range res.violations {
		found[v.promise]++
	}
	return found, told
}

// config is a short attack with what brings the mutant's fault about.
func (m mutant) config(bin binaries, dsn string) Config {
	const duration = 4 * time.Second
	cfg := Config{
		ChargeOnce: bin.chargeOnce, GatewaySim: bin.gatewaySim, DSN: dsn,
		Duration: duration, Clients: m.clients, Guard: true, Coalesce: m.coalesce, pace: m.pace, cards: []card{},
	}
	if cfg.Coalesce == "" {
		cfg.Coalesce = CoalesceNone
	}
	if cfg.Clients == 0 {
		cfg.Clients = 24
	}
	// What it breaks may never become quiet.
	cfg.pace.learn, cfg.pace.quiet = 2*time.Second, time.Second
	cfg.pace.deadline, cfg.pace.finish, cfg.pace.margin = time.Second, 500*time.Millisecond, 200*time.Millisecond
	for i := range 4 {
		for j, kind := range m.faults {
			cfg.cards = append(cfg.cards, card{kind: kind, at: time.Duration(i) * duration / 4, seed: uint64(10*i + j)})
		}
	}
	return cfg
}
