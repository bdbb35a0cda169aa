"""How NCCL, and PyTorch and the kernel, word what is wrong, version by version: ((file:line, function), text)."""


def ib_error(v, peer_ip):
    """A completion with error 12: the peer did not answer all the retries."""
    where = ("transport/net_ib.cc:1298", "ncclIbTest")
    if v < (2, 10):
        text = "NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129"
    elif v < (2, 20):
        text = f"NET/IB : Got completion from peer {peer_ip}<47213> with error 12, opcode 0, len 0, vendor err 129"
        if v >= (2, 18):
            text += " (Send) localGid fe80::1 remoteGidsfe80::2"
    elif v < (2, 28, 7):
        head, tail = ("NET/IB : ", "") if v < (2, 22) else ("NET/IB: ", " hca mlx5_0")
        text = (f"{head}Got completion from peer {peer_ip}<47213> with status=12 opcode=0 len=0 vendor err 129 (Send) "
                f"localGid fe80::1 remoteGidsfe80::2{tail}")
    else:
        text = (f"NET/IB: Got completion from peer {peer_ip}<47213> with status=IBV_WC_RETRY_EXC_ERR(12) "
                "opcode=IBV_WC_SEND(0) reqSize=0 vendor_err=129 req_type=Send localGid fe80::1 remoteGidsfe80::2 "
                "hca mlx5_0")
    return where, text


def connection_closed(v, peer_ip):
    if v < (2, 14):
        return ("misc/socket.cc:521", "ncclSocketProgress"), f"Net : Connection closed by remote peer {peer_ip}<37877>"
    return ("misc/socket.cc:49", "socketProgress"), \
        f"socketProgress: Connection closed by remote peer {peer_ip}<37877>"


def no_route(v, peer_ip):
    if v < (2, 14):
        return ("misc/socket.cc:392", "connect"), f"Net : Connect to {peer_ip}<41231> failed : No route to host"
    if v < (2, 24):
        return ("misc/socket.cc:484", "socketStartConnect"), \
            f"socketStartConnect: Connect to {peer_ip}<41231> failed : No route to host"
    return ("misc/socket.cc:571", "socketPollConnect"), \
        f"socketPollConnect: connect to {peer_ip}<41231> returned No route to host, exceeded error retry count after " \
        "35 attempts"


def shm_full(v):
    if v < (2, 12):
        return ("include/shm.h:48", "shmSetup"), "Call to posix_fallocate failed : No space left on device"
    errno = ", error: No space left on device (28)" if v >= (2, 22) else ""
    return ("misc/shmutils.cc:88", "ncclShmOpen"), \
        f"Error: failed to extend /dev/shm/nccl-WU88OE to 9637892 bytes{errno}"


def size_mismatch(v, peer_ip):
    """The two sides of a connection posted different sizes."""
    where = ("transport/net_ib.cc:1038", "ncclIbTest")
    if v < (2, 12):
        return where, "NET/IB : collective mismatch error local size 32768 remote 1048576 addr 0 rkey 3bea seq adf/adf"
    if v < (2, 20):
        return where, (f"NET/IB : req 0/1 tag 0 peer {peer_ip}<58683> collective mismatch error, local size 32768 "
                       "remote size 1048576")
    return ("transport/net_socket.cc:562", "ncclNetSocketTest"), \
        f"NET/Socket : peer {peer_ip}<58683> message truncated : receiving 1048576 bytes instead of 32768"


def xid(host, second, pid):
    """A line of the kernel as syslog keeps it."""
    return (f"Nov 21 10:{second // 60:02d}:{second % 60:02d} {host} kernel: [{4000 + second}.123456] NVRM: Xid "
            f"(PCI:0000:18:00): 79, pid={pid}, name=python, GPU has fallen off the bus.")


TORCH_OPS = {"AllReduce": "ALLREDUCE", "AllGather": "_ALLGATHER_BASE", "ReduceScatter": "_REDUCE_SCATTER_BASE",
             "Broadcast": "BROADCAST", "Reduce": "REDUCE"}


def torch_timeout(old, rank, seq, op, numel, enqueued, completed):
    """What ProcessGroupNCCL's watchdog says, in the words of PyTorch 2.1 or of 2.4 and later."""
    work = (f"WorkNCCL(SeqNum={seq}, OpType={TORCH_OPS[op]}, NumelIn={numel}, NumelOut={numel}, Timeout(ms)=600000) ran "
            f"for 600{rank % 1000:03d} milliseconds before timing out.")
    if old:
        return [f"[E ProcessGroupNCCL.cpp:475] [Rank {rank}] Watchdog caught collective operation timeout: {work}",
                f"[E ProcessGroupNCCL.cpp:1182] [PG 0 Rank {rank}] Timeout at NCCL work: {seq}, last enqueued NCCL "
                f"work: {enqueued}, last completed NCCL work: {completed}."]
    head = f"[rank{rank}]:[E1121 10:20:00.{rank:09d} ProcessGroupNCCL.cpp:"
    return [f"{head}616] [Rank {rank}] Watchdog caught collective operation timeout: {work}",
            f"{head}1785] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Exception (either an error or timeout) detected "
            f"by watchdog at work: {seq}, last enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}."]
