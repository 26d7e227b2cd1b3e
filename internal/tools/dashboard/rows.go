package main

// rows are the dashboard's, each of about one screen at the most. What the database tells is the same from every process, so it is a max
// and does not follow the choice of instances; nor does the objective, which is the whole service's.
func rows() []row {
	return []row{now(), requests(), objective(), provider(), keys(), reconciliation(), webhooks(), pool(), runtime()}
}

func now() row {
	return row{"Now", []panel{
		stat("Error budget left", "Of the half percent of checkouts that may fail or be late in 30 days.", "percentunit", 4,
			`chargeonce:checkout_budget_left:ratio30d`).colored("red", step{0, "orange"}, step{0.25, "green"}),
		stat("Checkouts that succeed within 1 s", "Of those that count, in the last hour. The objective is 99.5 %.", "percentunit", 4,
			`1 - chargeonce:checkout_errors:ratio_rate1h`).colored("red", step{0.928, "orange"}, step{0.995, "green"}),
		stat("Checkouts", "Requests per second that count for the objective.", "reqps", 3, `chargeonce:checkout_valid:rate5m`).colored("blue"),
		stat("Servers up", "Servers that Prometheus reaches.", "none", 3, `sum(up{job="chargeonce"})`).colored("red", step{1, "green"}),
		stat("Read-only", "Servers that take no new purchases, by an operator's wish.", "none", 3, `sum(chargeonce_read_only)`).colored("green", step{1, "orange"}),
		stat("Breakers not closed", "Processes whose breaker for the PSP is open or half-open.", "none", 3,
			`sum(1 - chargeonce_psp_breaker_state{state="closed"})`).colored("green", step{1, "red"}),
		stat("A person is needed", "Parked keys, dead events, charges after a refusal, and findings of the last pass.", "none", 4,
			`max(chargeonce_keys_parked) + sum(max by (state) (chargeonce_webhook_inbox{state=~"dead|charged_after_refusal"})) + (max(chargeonce_reconcile_findings) or vector(0))`).
			colored("green", step{1, "red"}),
	}}
}

func requests() row {
	return row{"Requests", []panel{
		lines("Rate", "Requests per second, by method and outcome.", "reqps", 6,
			query{`sum by (method, outcome) (rate(chargeonce_request_duration_seconds_count{instance=~"$instance"}[$__rate_interval]))`, "{{method}} {{outcome}}"}),
		lines("Errors", "Requests per second that were refused or failed, by the reason that the caller was told.", "reqps", 6,
			query{`sum by (reason, code) (rate(chargeonce_request_duration_seconds_count{instance=~"$instance",outcome=~"refused|failed"}[$__rate_interval]))`, "{{reason}} {{code}}"}),
		lines("Duration of checkouts", "Of those that count. One second is promised.", "s", 6,
			quantiles(`chargeonce_request_duration_seconds_bucket{instance=~"$instance",method="CreatePayment",outcome=~"answered|failed"}`)...).
			colored("transparent", step{1, "red"}).exemplars(),
		heatmap("Durations of checkouts", "How many took how long; a second mode is a cause of its own.", "s", 6,
			`sum by (le) (increase(chargeonce_request_duration_seconds_bucket{instance=~"$instance",method="CreatePayment"}[$__rate_interval]))`),
		lines("In flight", "Requests that are being worked on, and how many may be.", "none", 12,
			query{`sum by (instance) (chargeonce_requests_in_flight{instance=~"$instance"})`, "{{instance}}"},
			query{`max(chargeonce_requests_in_flight_limit{instance=~"$instance"})`, "limit of each"}),
		lines("By face", "Requests per second over gRPC and REST.", "reqps", 12,
			query{`sum by (face) (rate(chargeonce_request_duration_seconds_count{instance=~"$instance"}[$__rate_interval]))`, "{{face}}"}),
	}}
}

func objective() row {
	return row{"Objective: 99.5 % of checkouts succeed within 1 s, over 30 days", []panel{
		lines("Burn rate", "How many times too fast the budget is spent. At 1 it lasts exactly 30 days. Pages: 14.4 over 1 h and 5 m, 6 over 6 h and 30 m. Tickets: 3 over 1 d and 2 h, 1 over 3 d and 6 h.", "none", 8,
			query{`chargeonce:checkout_errors:ratio_rate5m / 0.005`, "5 m"}, query{`chargeonce:checkout_errors:ratio_rate30m / 0.005`, "30 m"},
			query{`chargeonce:checkout_errors:ratio_rate1h / 0.005`, "1 h"}, query{`chargeonce:checkout_errors:ratio_rate2h / 0.005`, "2 h"},
			query{`chargeonce:checkout_errors:ratio_rate6h / 0.005`, "6 h"}, query{`chargeonce:checkout_errors:ratio_rate1d / 0.005`, "1 d"},
			query{`chargeonce:checkout_errors:ratio_rate3d / 0.005`, "3 d"}).
			colored("transparent", step{1, "yellow"}, step{3, "orange"}, step{6, "red"}, step{14.4, "dark-red"}),
		lines("Error budget left", "Of 30 days. Below 0 the objective is missed.", "percentunit", 8, query{`chargeonce:checkout_budget_left:ratio30d`, "left"}).
			signed().upTo(1).colored("transparent", step{0, "red"}),
		lines("Bad checkouts", "Failed, or answered late, in the last hour and day. The alerts want ten at the least.", "none", 8,
			query{`chargeonce:checkout_bad:count1h`, "1 h"}, query{`chargeonce:checkout_bad:count1d`, "1 d"}),
	}}
}

func provider() row {
	return row{"The PSP", []panel{
		lines("Attempts", "Calls per second, by what they came to. unknown: a charge may or may not exist.", "reqps", 8,
			query{`sum by (psp_operation, psp_outcome) (rate(chargeonce_psp_attempt_duration_seconds_count{instance=~"$instance"}[$__rate_interval]))`, "{{psp_operation}} {{psp_outcome}}"}),
		lines("Faults", "Calls per second that brought no answer to build on, by the fault.", "reqps", 8,
			query{`sum by (error_type) (rate(chargeonce_psp_attempt_duration_seconds_count{instance=~"$instance",error_type!=""}[$__rate_interval]))`, "{{error_type}}"}),
		lines("Duration of charges", "Of single attempts. --psp-slow must lie above the 99th hundredth.", "s", 8,
			quantiles(`chargeonce_psp_attempt_duration_seconds_bucket{instance=~"$instance",psp_operation="charge"}`)...).exemplars(),
		lines("Breaker", "Processes by the state of their breaker.", "none", 6,
			query{`sum by (state) (chargeonce_psp_breaker_state{instance=~"$instance"})`, "{{state}}"}).stacked(),
		lines("Retries and refusals", "Per second: attempts made again, calls given up, calls not let out, calls past the slow mark.", "reqps", 6,
			query{`sum(rate(chargeonce_psp_retries_total{instance=~"$instance"}[$__rate_interval]))`, "retries"},
			query{`sum by (spent) (rate(chargeonce_psp_give_ups_total{instance=~"$instance"}[$__rate_interval]))`, "given up: {{spent}}"},
			query{`sum by (reason) (rate(chargeonce_psp_refusals_total{instance=~"$instance"}[$__rate_interval]))`, "refused: {{reason}}"},
			query{`sum(rate(chargeonce_psp_slow_calls_total{instance=~"$instance"}[$__rate_interval]))`, "slow"}),
		lines("Retry budget left", "Tokens. A retry costs one, a success gives a tenth; below 1 nothing is tried again.", "none", 6,
			query{`min by (instance) (chargeonce_psp_retry_budget{instance=~"$instance"})`, "{{instance}}"}).colored("transparent", step{1, "red"}),
		lines("Slots in use", "Calls under way, and how many there may be at once.", "none", 6,
			query{`sum by (instance) (chargeonce_psp_slots_used{instance=~"$instance"})`, "{{instance}}"},
			query{`max(chargeonce_psp_slots_limit{instance=~"$instance"})`, "limit of each"}),
	}}
}

func keys() row {
	return row{"Keys", []panel{
		lines("Claims", "Claims of idempotency keys per second, by what they came to.", "ops", 6,
			query{`sum by (outcome) (rate(chargeonce_claims_total{instance=~"$instance"}[$__rate_interval]))`, "{{outcome}}"}),
		lines("Finishes", "How leases ended, per second. fenced: another had taken over. released: the outcome is open.", "ops", 6,
			query{`sum by (outcome) (rate(chargeonce_finishes_total{instance=~"$instance"}[$__rate_interval]))`, "{{outcome}}"}),
		lines("Stuck and parked keys", "Stuck: reconciliation settles them. Parked: a person has to.", "none", 6,
			query{`max(chargeonce_keys_stuck)`, "stuck"}, query{`max(chargeonce_keys_parked)`, "parked"}),
		lines("Age of the oldest stuck key", "Since it was last attempted. One that the PSP never saw waits an hour.", "s", 6,
			query{`max(chargeonce_keys_oldest_stuck_seconds)`, "oldest"}).colored("transparent", step{5400, "red"}),
	}}
}

func reconciliation() row {
	return row{"Reconciliation", []panel{
		lines("Since the last pass began", "Whether it ran as a CronJob or in a loop.", "s", 6,
			query{`time() - max(chargeonce_reconcile_last_pass_timestamp_seconds)`, "age"}).colored("transparent", step{900, "red"}),
		lines("What the last pass left", "Findings need a person. unknown: the PSP did not say.", "none", 6,
			query{`max(chargeonce_reconcile_findings)`, "findings"}, query{`max(chargeonce_reconcile_psp_unknown)`, "unknown"}),
		lines("What passes dealt with", "Of the loop, with reconcile --every. A CronJob leaves its counts in reconcile_runs.", "none", 6,
			query{`sum by (phase, outcome) (increase(chargeonce_reconcile_outcomes_total[$__rate_interval]))`, "{{phase}}: {{outcome}}"}).stacked(),
		lines("Passes of the loop", "How they ended, and the 99th hundredth of how long they took.", "none", 6,
			query{`sum by (outcome) (increase(chargeonce_reconcile_passes_total[$__rate_interval]))`, "{{outcome}}"},
			query{`histogram_quantile(0.99, sum by (le) (rate(chargeonce_reconcile_duration_seconds_bucket[$__rate_interval])))`, "seconds (p99)"}),
	}}
}

func webhooks() row {
	return row{"Webhooks", []panel{
		lines("Deliveries", "Events per second, by what became of them.", "ops", 8,
			query{`sum by (outcome) (rate(chargeonce_webhook_deliveries_total{instance=~"$instance"}[$__rate_interval]))`, "{{outcome}}"}),
		lines("Skew", "Our clock minus the time of accepted deliveries. Beyond 5 minutes they are refused.", "s", 8,
			quantiles(`chargeonce_webhook_skew_seconds_bucket{instance=~"$instance"}`)...).signed(),
		lines("Inbox", "Events that wait to be tried again, were set aside, or tell of a charge after a refusal.", "none", 8,
			query{`max by (state) (chargeonce_webhook_inbox)`, "{{state}}"}),
	}}
}

func pool() row {
	return row{"Connections to MySQL", []panel{
		lines("Connections", "Open connections by state, of all instances, and how many there may be.", "none", 8,
			query{`sum by (db_client_connection_state) (db_client_connection_count{instance=~"$instance"})`, "{{db_client_connection_state}}"},
			query{`sum(db_client_connection_max{instance=~"$instance"})`, "max"}),
		lines("Statements that wait", "How many wait for a connection at once, on average.", "none", 8,
			query{`sum by (instance) (rate(chargeonce_mysql_pool_wait_seconds_total{instance=~"$instance"}[$__rate_interval]))`, "{{instance}}"}).
			colored("transparent", step{1, "red"}),
		lines("Waits", "Statements per second that had to wait.", "ops", 8,
			query{`sum by (instance) (rate(chargeonce_mysql_pool_waits_total{instance=~"$instance"}[$__rate_interval]))`, "{{instance}}"}),
	}}
}

func runtime() row {
	return row{"Go runtime", []panel{
		lines("CPU", "Cores in use.", "none", 6, query{`rate(process_cpu_seconds_total{instance=~"$instance"}[$__rate_interval])`, "{{instance}}"}),
		lines("Memory", "Resident, and the heap's part of it.", "bytes", 6,
			query{`process_resident_memory_bytes{instance=~"$instance"}`, "{{instance}} resident"},
			query{`go_memstats_heap_alloc_bytes{instance=~"$instance"}`, "{{instance}} heap"}),
		lines("Goroutines", "A line that only rises is a leak.", "none", 6, query{`go_goroutines{instance=~"$instance"}`, "{{instance}}"}),
		lines("Longest pause of the collector", "Of the last collections.", "s", 6, query{`go_gc_duration_seconds{instance=~"$instance",quantile=~"1|1.0"}`, "{{instance}}"}),
	}}
}
