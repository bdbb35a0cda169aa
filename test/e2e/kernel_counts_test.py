#!/usr/bin/env python3
"""The bugs this would catch: a kernel whose machine code has become dearer than the memory is fast, or keeps registers
in memory; and a count that takes a block for part of the loop which is not, or leaves one out."""

import contextlib
import importlib.util
import io
import os
import subprocess
import sys
import unittest

import suite

SCRIPT = os.path.join(suite.ROOT, "scripts", "kernel_counts.py")
OBJECT = os.path.join(suite.BUILD, "CMakeFiles", "busbar_kernels.dir", "src", "kernels", "device.cu.o")

# A loop within another: two loads of 16 bytes, a branch around a block that calls. Before, behind and around it stand
# instructions that are not to be counted; S2R, IMAD and LDS are not the ALU pipe's.
SASS = """
.text._ZN6busbar12check_kernelILj4ELb1EEEvNS_7PatternE:
        /*0000*/                   MOV R1, 0x20 ;
.L_x_1:
        /*0010*/                   IADD3 R9, R9, 0x1, RZ ;
.L_x_2:
        /*0020*/                   LDG.E.EF.128 R4, desc[UR4][R2.64] ;
        /*0030*/                   LDG.E.EF.128 R8, desc[UR4][R2.64+0x40] ;
        /*0040*/                   S2R R0, SR_TID.X ;
        /*0050*/                   IMAD R3, R3, -0x7a143595, RZ ;
        /*0060*/                   SHF.R.U32.HI R0, RZ, 0xd, R3 ;
        /*0070*/                   LDS R6, [R6+UR10] ;
        /*0080*/                   LOP3.LUT P0, RZ, R3, R8, R23, 0xf6, !PT ;
        /*0090*/              @!P0 BRA `(.L_x_3) ;
        /*00a0*/                   LOP3.LUT R3, R3, R5, R20, 0xf6, !PT ;
        /*00b0*/                   CALL.REL.NOINC `($compare_vector) ;
.L_x_3:
        /*00c0*/                   ISETP.GE.U32.AND P0, PT, R17, UR13, PT ;
        /*00d0*/              @!P0 BRA `(.L_x_2) ;
        /*00e0*/                   ISETP.GE.U32.AND P1, PT, R17, UR13, PT ;
        /*00f0*/              @!P1 BRA `(.L_x_1) ;
        /*0100*/                   EXIT ;
.text._ZN6busbar11fill_kernelILj1ELb0EEEvNS_7PatternE:
.L_x_9:
        /*0000*/                   BRA.DIV UR6, `(.L_x_10) ;
        /*0008*/                   SHFL.BFLY PT, R4, R36, 0x1, 0x1f ;
.L_x_11:
        /*0010*/                   STG.E.EF.128 desc[UR4][R2.64], R4 ;
        /*0018*/                   STL [R1], R4 ;
        /*0020*/              @!P0 BRA `(.L_x_9) ;
        /*0030*/                   EXIT ;
.L_x_10:
        /*0040*/                   SHFL.BFLY P0, R7, R37, R38, R39 ;
        /*0050*/                   BRA `(.L_x_11) ;
"""


def script():
    spec = importlib.util.spec_from_file_location("kernel_counts", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class KernelCounts(unittest.TestCase):
    def test_a_loop_is_counted_without_what_calls_and_what_stands_around(self):
        check, fill = script().hot_loops(SASS)
        # Seven instructions and a branch, behind the call one and a branch; for 32 bytes.
        self.assertEqual((check.kernel, check.width, check.data, check.step), ("check", 4, "reduced", "in step"))
        self.assertEqual((check.alu, check.all, check.nbytes, check.local), (3 / 2, 10 / 2, 32, 0))
        # Without the way around the shuffle, for warps that are divided.
        self.assertEqual((fill.kernel, fill.width, fill.data, fill.all, fill.local), ("fill", 1, "moved", 5, 1))

    def test_more_instructions_than_the_limit_or_registers_in_memory_are_errors(self):
        counts = script()
        loop = counts.Loop("check", 4, "reduced", "in step", 48, 90, 32, 0)
        for changed, words in ((loop, ""), (loop._replace(alu=48.5), "48.5 ALU instructions, 48 at most"),
                               (loop._replace(step="out of step", alu=60), ""),
                               (loop._replace(local=2), "2 accesses to local memory")):
            counts.disassembled = lambda _: ""
            counts.hot_loops = lambda _, changed=changed: [changed]
            sys.argv = [SCRIPT, "--check", __file__]
            errors = io.StringIO()
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
                self.assertEqual(counts.main(), 1 if words else 0)
            self.assertIn(words, errors.getvalue())

    def test_the_kernels_of_this_build_are_within_their_limits(self):
        if not os.path.exists(OBJECT):
            self.skipTest("a build without CUDA")
        command = [sys.executable, SCRIPT, "--check", OBJECT]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if result.returncode == 77:
            self.skipTest(result.stdout.strip())
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        for kernel in ("fill", "check"):
            for width in "1248":
                for data in ("moved", "rank", "reduced"):
                    for step in ("in step", "out of step"):
                        self.assertRegex(result.stdout, rf"(?m)^ +{kernel} +{width} {data} +{step} ")


if __name__ == "__main__":
    suite.main()
