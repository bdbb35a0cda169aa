"""What a finding of the real samples ("gdr_off", "init_complete_rank_6") means in what `busbar diagnose --json` says.

One rule per kind of finding. A rule looks at a field where there is one, else for words in what was said; files' names
are never looked at. SURVIVES are findings about the shape of a log that a reader must cope with, and need not tell:
they count as found when all of NCCL's lines, and only those, were taken for such. NOT_TOLD are findings that nobody
needs from this tool, each with its reason; they count as missed.
"""

import re

SURVIVES = re.compile(
    r"abbreviated_coll_lines|no_host_prefix|trees_2.4_form|old_ring_lines|launcher_prefix(_ray)?|interleaved_lines|"
    r"orphan_line|ring_table(_truncated_at_20)?|graph_(ring|tree)_lines|(table_fragment|benchmark_table)_mixed_in|"
    r"launch_mode_parallel|multi_line_table|application_lines|trailing_comm_pointer|nil_buffer|negative_color|"
    r"p2p_type_line|placeholder_values|merged_order_meaningless|lazy_connect|threads_share_pid|one_process_many_gpus|"
    r"warn_with_function|opcount_(0|12)|cc_off|no_tuner_plugin|relaxed_ordering")

NOT_TOLD = {
    "ecn_marked_packets": "counters of a port are not an NCCL log",
    "ib_hw_counters": "counters of a port are not an NCCL log",
    "local_ack_timeout_err_91316": "counters of a port are not an NCCL log",
    "packet_seq_err_929974": "counters of a port are not an NCCL log",
    "out_of_sequence_6140236": "counters of a port are not an NCCL log",
    "resp_cqe_error_20540": "counters of a port are not an NCCL log",
    "one_snapshot_no_delta": "counters of a port are not an NCCL log",
}


class Sample:
    """The sample's own lines, without its header, and the answer to them."""

    def __init__(self, lines, answer):
        self.lines, self.answer = lines, answer
        self.comms = answer.get("communicators", [])

    def says(self, *words):
        """Any of these, anywhere in the answer."""
        return any(re.search(word, self.answer.text, re.IGNORECASE) for word in words)

    def ranks(self, field):
        return {rank for comm in self.comms for rank in comm.get(field, [])}

    def copes(self):
        """As many lines were taken for NCCL's as there are, give or take those broken into each other."""
        theirs = sum(bool(re.search(r"NCCL (INFO|WARN|version)|opCount|Bytes -> Algo", line)) for line in self.lines)
        taken = sum(file.get("nccl_lines", 0) for file in self.answer.get("files", []))
        return abs(theirs - taken) <= 1

    def warning(self, *words):
        groups = self.answer.get("warnings", [])
        return any(re.search(word, str(group), re.IGNORECASE) for word in words for group in groups)


def numbers(text):
    return {int(part) for part in re.findall(r"\d+", text)}


RULES = [
    # Versions and settings.
    (r"nccl_version_(.+)", lambda s, m: s.says(rf"\b{re.escape(m[1])}\b")),
    (r"cuda_(\d+\.\d+)", lambda s, m: s.says(rf"cuda\D*{re.escape(m[1])}\b")),
    (r"env_(nccl_\w+?)_(\d+|pix)(_out_of_range)?",
     lambda s, m: s.says(rf"{m[1]}\W.*\b{m[2]}\b") and (not m[3] or s.says("out of|0 to 7|0\\.\\.7|range|at most 7"))),
    # Networks and transports.
    (r"transport_ib|network_ib", lambda s, m: s.says(r"NET/IB\b", r"network\W+IB\b")),
    (r"transport_socket", lambda s, m: s.says("Socket")),
    (r"transport_shm", lambda s, m: s.says(r"\bSHM\b", "direct shared memory")),
    (r"transport_p2p_(ipc|cumem|direct_read|direct)",
     lambda s, m: s.says({"ipc": "P2P/IPC", "cumem": "P2P/CUMEM", "direct": "P2P/direct",
                          "direct_read": "P2P/direct pointer/read"}[m[1]])),
    (r"network_(ibext_v8|libfabric)|external_net_plugin",
     lambda s, m: s.says(m[1] or "IBext|ib_plugin|plugin")),
    (r"provider_efa|nics_16", lambda s, m: s.says({"provider_efa": r"\befa\b", "nics_16": r"16 nics"}[m[0]])),
    (r"roce", lambda s, m: s.says("RoCE")),
    (r"no_ib_device", lambda s, m: s.says("ib_device none", "NET/IB : No device")),
    (r"no_net_plugin", lambda s, m: s.says("net_plugin none", "internal implementation")),
    (r"hca_mlx5_0", lambda s, m: s.says("mlx5_0")),
    (r"hcas_9_of_8_named|hca_prefix_match_extra_mlx5_10", lambda s, m: s.says("mlx5_10")),
    (r"bootstrap_on_lo", lambda s, m: s.says(r"\blo\b|loopback|127\.0\.0\.1")),
    (r"interfaces_3_with_wifi_and_vpn", lambda s, m: s.says("wlp128s20f3") and s.says("tailscale0")),
    (r"gdr_(on|off)", lambda s, m: s.says(rf"(gdr|GPU Direct RDMA|GPUDirect RDMA)\W*(is )?\W*{m[1]}\b")),
    (r"gdr_distance_3_limit_2", lambda s, m: s.says("distance 3 limit 2")),
    (r"dma_buf", lambda s, m: s.says("DMA-?BUF")),
    (r"dma_buf_off", lambda s, m: s.says("DMA-?BUF.*(off|false|no)")),
    (r"pxn_0", lambda s, m: s.says(r"pxn\W*(0|off)")),
    (r"nvls|connected_nvls_tree", lambda s, m: s.says("NVLS")),
    (r"mnnvl", lambda s, m: s.says("mnnvl (available|on)")),
    (r"mnnvl_off", lambda s, m: s.says("mnnvl (not available|off|0)")),
    (r"mnnvl_clique_size_4", lambda s, m: s.says("clique.*4")),
    (r"ras_listening", lambda s, m: s.says(r"\bRAS\b")),
    (r"(collnet_|nvls_)?channels_(\d+)",
     lambda s, m: s.says(rf"\b{m[2]} {(m[1] or 'coll_').rstrip('_')}", rf"{m[1] or ''}channels\W+{m[2]}\b")),
    # Communicators.
    (r"(nranks|nnodes)_(\d+)",
     lambda s, m: any(c.get(m[1]) == int(m[2]) for c in s.comms) or
     s.says(rf"\b{m[1]} {m[2]}\b", rf"\b{m[2]} ranks\b")),
    (r"single_host", lambda s, m: s.says(r"\bhosts_seen 1\b")),
    (r"comm_split|comm_shrink", lambda s, m: any(c.get("child") for c in s.comms)),
    (r"bootstrap_split_done_rank_2", lambda s, m: 2 in s.ranks("started") | s.ranks("completed")),
    (r"child_nranks_2", lambda s, m: any(c.get("child") and c.get("nranks") == 2 for c in s.comms)),
    (r"child_init_complete_all",
     lambda s, m: any(c.get("child") and len(c.get("completed", [])) == c.get("nranks") for c in s.comms)),
    (r"init_(start|complete)_all",
     lambda s, m: any(len(c.get({"start": "started", "complete": "completed"}[m[1]], [])) == c.get("nranks")
                      for c in s.comms)),
    (r"init_complete_ranks?_([\d_]+)", lambda s, m: numbers(m[1]) <= s.ranks("completed")),
    (r"init_start_ranks?_([\d_]+)", lambda s, m: numbers(m[1]) <= s.ranks("started")),
    (r"init_start_not_seen_ranks_([\d_]+)", lambda s, m: not numbers(m[1]) & s.ranks("started")),
    (r"ranks_([\d_]+)_not_seen_complete", lambda s, m: bool(s.comms) and not numbers(m[1]) & s.ranks("completed")),
    (r"init_complete_not_seen", lambda s, m: bool(s.comms) and not s.ranks("completed")),
    (r"ranks_not_in_excerpt_12_of_16|ranks_8_to_15_log_missing",
     lambda s, m: any(len(c.get("not_seen", [])) >= 8 for c in s.comms) or s.says("12 of 16|not given|8-15")),
    (r"rank_(\d+)", lambda s, m: s.answer.says(f"rank {m[1]}", s.answer.text) or
     int(m[1]) in s.ranks("started") | s.ranks("completed")),
    (r"ranks_seen_([\d_]+)", lambda s, m: all(s.answer.says(f"rank {r}", s.answer.text) for r in numbers(m[1]))),
    (r"ranks_seen_3_of_128", lambda s, m: s.says("3 of 128", "125 of 128")),
    (r"connected_all_rings_rank_on_nodea_dev_4", lambda s, m: s.says("nodea")),
    (r"destroy_complete", lambda s, m: s.says("destroy|ended cleanly")),
    (r"timings_total_([\d.]+)|timings_bootstrap_([\d.]+)", lambda s, m: s.says(re.escape(m[1] or m[2]))),
    # Calls.
    (r"tuning_lines|tuning_channels_lo_hi", lambda s, m: bool(s.answer.get("algorithms"))),
    (r"algo_(\w+)|proto_(\w+)",
     lambda s, m: any((m[1] or m[2]) in str(a).lower() for a in s.answer.get("algorithms", []))),
    (r"send_recv", lambda s, m: s.says(r"\bSend\b")),
    (r"args_agree.*|api_args_agree_opcount_f7",
     lambda s, m: s.answer.verdict != "ARG_MISMATCH" and not s.answer.get("divergences", [])),
    (r"coll_lines_8_of_16_ranks", lambda s, m: s.says("8 of 16") or len(s.answer.get("lags", [])) == 8),
    (r"no_coll_lines", lambda s, m: s.says("COLL")),
    (r"opcount_lag_pid_615", lambda s, m: s.answer.says("615")),
    (r"(?:last|max)_opcount_(\w+)", lambda s, m: s.says(rf"\b{m[1]}\b", rf"\b{int(m[1], 16)}\b")),
    (r"opcount_skew_2_dev_0_ahead", lambda s, m: len(s.answer.get("lags", [])) == 2),
    (r"deviating_dev_0", lambda s, m: s.answer.says("32615") or s.answer.says("rank 0") or s.answer.says("[0]")),
    (r"count_53_vs_25503912", lambda s, m: s.answer.says("53") and s.answer.says("25503912")),
    (r"datatype_int64_vs_half", lambda s, m: s.answer.says("datatype") or s.answer.says("int64")),
    (r"sequence_shifted_by_one", lambda s, m: s.says("shifted|ahead|skipped|one call")),
    # Warnings and what is the matter.
    (r"warn_mismatched_collective", lambda s, m: s.warning("Mismatched collective")),
    (r"around_rank_39", lambda s, m: s.answer.says("rank 39")),
    (r"warn_libibverbs_missing", lambda s, m: s.warning("libibverbs")),
    (r"warn_connection_closed|victim_only", lambda s, m: s.warning("closed by remote peer")),
    (r"warn_proxy_connect_failed", lambda s, m: s.warning("Proxy Call|Failed to execute operation Connect")),
    (r"warn_(no_net_plugin_initialized|fi_getinfo_failed|cuda_launch_failure|ras_port_busy)(_harmless)?",
     lambda s, m: s.warning({"n": "Failed to initialize any NET", "f": "fi_getinfo", "c": "launch failure",
                             "r": "bind failed"}[m[1][0]]) and (not m[2] or s.answer.verdict == "OK")),
    (r"warn_timestamp", lambda s, m: any(w.get("timestamp") for w in s.answer.get("warnings", []))),
    (r"second_host_without_provider", lambda s, m: s.answer.says("ip-172-31-3-90")),
    (r"peer_([\d.]+)", lambda s, m: s.says(re.escape(m[1]))),
    (r"requester_rank_14|reporter_rank_1", lambda s, m: s.answer.says(m[0].split("_", 1)[1].replace("_", " "),
                                                                      s.answer.text)),
    (r"reporter_rank_4_kolyoz2", lambda s, m: s.answer.says("rank 4") and s.answer.says("kolyoz2")),
    (r"retcode_2|unwinding_rc_(\d)", lambda s, m: s.says(rf"(-> |retcode |code ){m[1] or 2}\b")),
    (r"proxy_thread", lambda s, m: s.says("proxy")),
    (r"origin_log_missing|first_cause_not_in_log",
     lambda s, m: bool(s.answer.get("missing")) and s.answer.verdict == "UNKNOWN"),
    (r"teardown_fallout", lambda s, m: s.answer.verdict == "UNKNOWN"),
    (r"size_mismatch_transport", lambda s, m: s.warning("mismatch|truncated")),
    (r"local_size_(\d+)_remote_(\d+)", lambda s, m: s.says(m[1]) and s.says(m[2])),
    (r"suspect_env.*", lambda s, m: s.says("environment|settings|NCCL_ALGO|NCCL_PROTO")),
    (r"dev_shm_full", lambda s, m: s.answer.says("/dev/shm")),
    (r"host_(.+)", lambda s, m: s.answer.says(m[1])),
    (r"segment_(\d+)_bytes", lambda s, m: s.says(m[1])),
    (r"errno_28", lambda s, m: s.says("No space left on device|\\(28\\)")),
    (r"secondary_on_gpu004", lambda s, m: any(w.get("victim") and "gpu004" in str(w)
                                              for w in s.answer.get("warnings", []))),
    (r"ib_completion_error_4", lambda s, m: s.answer.says("error 4") or s.answer.says("status 4")),
    (r"local_protection_error", lambda s, m: s.says("local protection")),
    (r"vendor_err_81", lambda s, m: s.says("vendor.err.?.?81")),
    # RAS.
    (r"ras_text|not_an_nccl_log", lambda s, m: not sum(f.get("nccl_lines", 0) for f in s.answer.get("files", []))),
    (r"ras_dead_pid_(\d+)", lambda s, m: s.answer.says(m[1])),
    (r"rank_missing_21", lambda s, m: s.answer.says("rank 21", s.answer.text) or s.says("missing rank: 21")),
    (r"ras_timeouts_2", lambda s, m: s.says(r"\b2 (communication )?timeouts")),
    (r"ras_mismatch_op_lag_1", lambda s, m: s.says("6649")),
    (r"lagging_ranks_([\d_]+)", lambda s, m: all(s.answer.says(f"rank {r}", s.answer.text) for r in numbers(m[1]))),
]


def found(finding, sample):
    """True or false, or None where there is no rule for it."""
    if finding in NOT_TOLD:
        return None
    for pattern, rule in RULES:
        match = re.fullmatch(pattern, finding)
        if match:
            return bool(rule(sample, match))
    return sample.copes() if SURVIVES.fullmatch(finding) else None
