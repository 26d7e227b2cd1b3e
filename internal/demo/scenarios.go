package demo

import "chargeonce/internal/rig"

// scenarios are the stories, in the order in which they are played. In each, an app buys one thing.
var scenarios = []scenario{
	{
		name:  "happy-path",
		title: "a purchase, and the same request once more",
		want:  want{answers: answers{"201", "201 replayed"}, charges: 1, rows: 1, lease: 1},
		play: func(s *story) {
			purchase := s.intent(visa)
			s.pay(s.one, purchase)
			s.pay(s.two, purchase)
		},
	},
	{
		name:  "over-grpc",
		title: "paid over REST, and sent again over gRPC",
		needs: needs{processes: true},
		want:  want{answers: answers{"201", "OK replayed"}, charges: 1, rows: 1, lease: 1},
		play: func(s *story) {
			purchase := s.intent(visa)
			s.pay(s.one, purchase)
			s.pay(s.two.overGRPC(), purchase)
		},
	},
	{
		name:  "double-click",
		title: "two clicks at once",
		needs: needs{faults: true},
		want:  want{answers: answers{"201", "409 → 201 replayed"}, charges: 1, rows: 1, lease: 1},
		play: func(s *story) {
			s.fault("takes 600 ms", rig.Rule{Fault: "latency", Latency: "fixed 600ms"})
			purchase := s.intent(visa)
			first, second := s.start(s.one, purchase), s.start(s.two, purchase)
			s.await(first)
			s.await(second)
			s.sortAnswers() // either click may be the first
		},
	},
	{
		name:  "answer-lost",
		title: "the PSP charges, and its answer is lost, to each of the server's four attempts",
		needs: needs{faults: true},
		want:  want{answers: answers{"503 → 201"}, charges: 1, rows: 1, lease: 2},
		play: func(s *story) {
			s.fault("will charge, and drop the connection four times", rig.Rule{Fault: "lose_answer", How: "drop_connection", Count: 4})
			s.pay(s.one, s.intent(visa))
		},
	},
	{
		name:  "declined",
		title: "the card is declined, and the request sent again",
		want:  want{answers: answers{"402", "402 replayed"}, charges: 0, rows: 0, lease: 1},
		play: func(s *story) {
			purchase := s.intent(declined)
			s.pay(s.one, purchase)
			s.pay(s.two, purchase)
		},
	},
	{
		name:  "key-reused",
		title: "the same key for another amount",
		want:  want{answers: answers{"201", "422"}, charges: 1, rows: 1, lease: 1},
		play: func(s *story) {
			purchase := s.intent(visa)
			s.pay(s.one, purchase)
			s.pay(s.one, s.costing(purchase, 9900))
		},
	},
	{
		name:  "second-key",
		title: "the app is installed anew, and makes a second key for the same order",
		needs: needs{processes: true},
		want:  want{answers: answers{"201", "409"}, charges: 1, rows: 1, lease: 1},
		play: func(s *story) {
			s.pay(s.one, s.intent(visa))
			s.pay(s.two, s.intent(visa))
		},
	},
	{
		name:  "server-killed",
		title: "the server is killed between the charge and its record",
		needs: needs{processes: true, faults: true},
		want:  want{answers: answers{"no answer", "409 → 201"}, charges: 1, rows: 1, lease: 2},
		play: func(s *story) {
			s.fault("will charge, and keep its answer back", rig.Rule{Fault: "lose_answer", How: "hang"})
			purchase := s.intent(visa)
			sent := s.tryOnce(s.one, purchase)
			s.awaitCharge()
			s.kill(s.one)
			s.await(sent)
			s.noFaults()
			s.pay(s.two, purchase)
		},
	},
	{
		name:  "server-frozen",
		title: "the server stands still past its lease, is taken over from, and wakes",
		needs: needs{processes: true, faults: true},
		want:  want{answers: answers{"time-out", "409 → 201"}, charges: 1, rows: 1, lease: 2},
		play: func(s *story) {
			s.fault("takes 700 ms", rig.Rule{Fault: "latency", Latency: "fixed 700ms"})
			purchase := s.intent(visa)
			sent := s.tryOnce(s.one, purchase)
			s.awaitPSPAtWork()
			s.freeze(s.one)
			s.awaitCharge()
			s.await(sent)
			s.pay(s.two, purchase)
			s.thaw(s.one)
			s.awaitFenced(s.one)
		},
	},
	{
		name:  "user-gone",
		title: "the user leaves and never comes back; reconciliation completes the purchase",
		needs: needs{processes: true, faults: true},
		want:  want{answers: answers{"left"}, charges: 1, rows: 1, lease: 2},
		play: func(s *story) {
			s.fault("will charge, and keep its answer back", rig.Rule{Fault: "lose_answer", How: "hang"})
			sent := s.tryOnce(s.one, s.intent(visa))
			s.awaitCharge()
			s.leave(sent)
			s.awaitReleased()
			s.expectRows(0)
			s.noFaults()
			s.reconcile()
		},
	},
	{
		name:  "webhook-first",
		title: "the PSP's webhook comes before its answer",
		needs: needs{processes: true, faults: true},
		want:  want{answers: answers{"201"}, charges: 1, rows: 1, lease: 1},
		play: func(s *story) {
			s.webhookFirst(s.two)
			s.pay(s.one, s.intent(visa))
			s.expectWebhookBeforeAnswer()
		},
	},
}
