#!/usr/bin/env python3
"""Man pages and shell completions, from what --help of the built programs says, and so from the declarations that parse
the options.

    packaging/manual.py BUILDDIR OUTDIR [VERSION]

writes OUTDIR/man1/*.1, OUTDIR/bash/* (a file per program, and for mpirun and mpiexec, which complete what they launch)
and OUTDIR/zsh/_busbar."""

import os
import pathlib
import re
import subprocess
import sys

OPTION = re.compile(r"^ {2,6}(?P<names>-{1,2}[\w-]+(?:, -{1,2}[\w-]+)*)(?P<argument>(?:\[=|[ =])[^ ]+(?: [A-Z.]+)*)?"
                    r"(?:  +(?P<help>\S.*))?$")
ANY_OPTION = re.compile(r"(?<![\w=/-])(--?[a-zA-Z][\w-]*)")
COMM = "comm_perf"
FOREIGN = {"-n", "-np", "--hostfile"}  # of launchers, in examples
LAUNCHERS = ["mpirun", "mpiexec", "srun"]
ROOT = pathlib.Path(__file__).resolve().parents[1]
COLLECTIVES = re.findall(r"^ +COLLECTIVE\((\w+),", (ROOT / "src/collectives/collective_list.h").read_text(encoding="utf-8"),
                         re.MULTILINE)
PLANS = sorted(path.stem for path in (ROOT / "configs").glob("*.yaml") if "\nstages:" in path.read_text(encoding="utf-8"))
SETTING = re.compile(r"\b(?:NCCL_[A-Z]+|(?:ompi|mpich|gloo|nccl)\.\w+|device)(?=[=,; ])")  # in the help of compare


class Option:
    def __init__(self, names, argument, text):
        self.names, self.argument, self.text = names, argument, text

    @property
    def choices(self):
        """The words between bars: out|in|both."""
        words = self.argument.strip(" =[]").split("|")
        return words if len(words) > 1 else self.items

    @property
    def items(self):
        """The words of a list with commas: "sum prod max, a comma list, or all"."""
        listed = re.search(r"([a-z0-9 ]+), a comma list", self.text if isinstance(self.text, str) else "")
        return [*listed[1].split(), "all"] if listed else []

    @property
    def takes_file(self):
        return bool(re.search(r"FILE|DIR|FOLDER|PATH", self.argument))


def help_of(build, program, *words):
    suffix = os.environ.get("BUSBAR_NAME_SUFFIX", "")
    return subprocess.run([str(build / (program + suffix)), *words, "--help"], check=True, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout


def blocks_of(text):
    """[lines], as empty lines part them."""
    return [block.split("\n") for block in re.split(r"\n\n+", text.strip("\n"))]


def options_of(lines):
    """The options of a block, and what stands above them; None where it has none."""
    options, above = [], []
    for line in lines:
        found = OPTION.match(line)
        if found:
            options.append(Option(found["names"].split(", "), found["argument"] or "", [found["help"] or ""]))
        elif options and line.startswith(" " * 20):
            options[-1].text.append(line.strip())
        elif options:
            return None, lines
        else:
            above.append(line)
    for option in options:
        option.text = " ".join(part for part in option.text if part)
    return (options or None), above


def all_options(text):
    """Every option that the help declares, and names of other programs' which it takes too."""
    declared = [option for block in blocks_of(text) for option in options_of(block)[0] or []]
    known = {name for option in declared for name in option.names}
    also = [name for name in dict.fromkeys(ANY_OPTION.findall(text)) if name not in known | FOREIGN]
    return declared, also


# man -----------------------------------------------------------------------------------------------------------------
def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in text.split("\n"))


def man_options(options):
    lines = []
    for option in options:
        argument = option.argument
        shown = ", ".join(f"\\fB{roff(name)}\\fR" for name in option.names)
        lines += [".TP", shown + (f"{roff(argument[:1])}\\fI{roff(argument[1:])}\\fR" if argument else ""),
                  roff(option.text)]
    return lines


def man_terms(lines):
    """`TERM  explanation`, continued by lines that are indented more."""
    out, column = [], len(lines[0]) - len(lines[0].lstrip())
    for line in lines:
        term = re.match(rf" {{0,{column}}}(\S+)  +(.*)", line)  # numbers are flush right
        out += [".TP", f"\\fB{roff(term[1])}\\fR", roff(term[2])] if term else [roff(line.strip())]
    return out


def man_page(name, summary, text, version, see):
    out = [f'.TH {name.upper()} 1 "" "busbar {version}" "busbar"', ".SH NAME", f"{roff(name)} \\- {roff(summary)}"]
    usage, *rest = blocks_of(text)
    out += [".SH SYNOPSIS", ".nf", *(roff(re.sub(r"^(usage:|\s{6}) ?", "", line)) for line in usage), ".fi",
            ".SH DESCRIPTION"]
    for block in rest:
        options, above = options_of(block)
        title = above[0].rstrip(":") if above and above[0].endswith(":") and not above[0].startswith(" ") else ""
        if options:
            out += [f'.SH "{roff(title.upper())}"' if title else ".SH OPTIONS", *man_options(options)]
        elif title in ("Environment", "Exit codes"):
            out += [".SH ENVIRONMENT" if title == "Environment" else '.SH "EXIT STATUS"', *man_terms(block[1:])]
        elif all(line.startswith("  ") for line in block):
            out += [".PP", ".nf", *(roff(line) for line in block), ".fi"]
        else:
            codes = block[0].startswith("Exit code")
            out += ['.SH "EXIT STATUS"' if codes else ".PP", *(roff(line) for line in block)]
    out += [".SH SEE ALSO", ", ".join(f"\\fB{roff(page)}\\fR(1)" for page in see if page != name)]
    return "\n".join(out) + "\n"


# Completions ---------------------------------------------------------------------------------------------------------
def bash_values(options, indent):
    """`case` branches for what follows an option."""
    lines = []
    for option in options:
        names = "|".join(option.names)
        if option.items:
            words = " ".join(option.items)
            lines.append(f'{indent}{names}) COMPREPLY=($(compgen -P "${{cur%"${{cur##*,}}"}}" -W "{words}" -- '
                         '"${cur##*,}")); return ;;')
        elif option.names == ["--vary"]:
            lines.append(f'{indent}{names}) compopt -o nospace; COMPREPLY=($(compgen -W "{{settings}}" -- "$cur")); '
                         "return ;;")
        elif option.choices:
            words = " ".join(option.choices)
            lines.append(f'{indent}{names}) COMPREPLY=($(compgen -W "{words}" -- "$cur")); return ;;')
        elif option.takes_file:
            lines.append(f'{indent}{names}) compopt -o default; COMPREPLY=(); return ;;')
        elif option.argument and not option.argument.startswith("["):
            lines.append(f"{indent}{names}) COMPREPLY=(); return ;;")
    return lines


def words_of(help_text):
    declared, also = all_options(help_text)
    return [name for option in declared for name in option.names] + also


def bash_perf(name, text):
    return "\n".join([f"# bash completion of {name}: made by packaging/manual.py", f"_{name}() {{",
                      '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD - 1]}"', "  case $prev in",
                      *bash_values(all_options(text)[0], "    "), "  esac",
                      f'  COMPREPLY=($(compgen -W "{" ".join(words_of(text))}" -- "$cur"))', "}",
                      f"complete -F _{name} {name}", ""])


def plain_words(name, helps):
    """What a subcommand takes besides options and files."""
    return {"accept": PLANS, "compare": COLLECTIVES, "fingerprint": COLLECTIVES, "help": list(helps),
            "history": re.findall(r"busbar history (\w+)", helps["history"])}.get(name, [])


def settings_of(help_text):
    return " ".join(f"{name}=" for name in dict.fromkeys(SETTING.findall(help_text)))


# A program of ours among the words of a launcher's command line gets the words from itself on.
LAUNCHED = r"""_busbar_launched() {
  local i name
  for ((i = 1; i < COMP_CWORD; i++)); do
    name=${COMP_WORDS[i]##*/}
    [[ $name == busbar || $name == *_perf ]] || continue
    if [[ $name != busbar ]] && ! declare -F "_$name" >/dev/null; then
      source "$_busbar_completions/$name" 2>/dev/null || return
    fi
    COMP_WORDS=("${COMP_WORDS[@]:i}")
    ((COMP_CWORD -= i))
    "_$name"
    return
  done
}
_busbar_completions=${BASH_SOURCE[0]%/*}
for _busbar_launcher in @LAUNCHERS@; do
  complete -p "$_busbar_launcher" &>/dev/null || complete -o default -F _busbar_launched "$_busbar_launcher"
done
unset _busbar_launcher
""".replace("@LAUNCHERS@", " ".join(LAUNCHERS))


def bash_busbar(helps, perf_text):
    lines = ["# bash completion of busbar: made by packaging/manual.py", "_busbar() {",
             '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD - 1]}"',
             "  if ((COMP_CWORD == 1)); then", f'    COMPREPLY=($(compgen -W "{" ".join(helps)} help --help --version '
             '--licenses" -- "$cur"))', "    return", "  fi", "  case ${COMP_WORDS[1]} in",
             f'    help) COMPREPLY=($(compgen -W "{" ".join(helps)}" -- "$cur")) ;;']
    for name, text in helps.items():
        lines += [f"    {name})"]
        if name == "repeat":
            lines += ["      local i", "      for ((i = 2; i < COMP_CWORD; i++)); do",
                      "        [[ ${COMP_WORDS[i]} == *_perf ]] && _busbar_launched && return", "      done"]
        declared, also = all_options(text)
        shared = [option for option in all_options(perf_text)[0] if option.choices and set(option.names) & set(also)]
        lines += ["      case $prev in",
                  *(line.replace("{settings}", settings_of(text)) for line in bash_values(declared + shared, " " * 8)),
                  "      esac", '      [[ $cur == -* ]] || compopt -o default',
                  f'      COMPREPLY=($(compgen -W "{" ".join(words_of(text) + plain_words(name, helps))}" -- "$cur")) ;;']
    return "\n".join([*lines, "  esac", "}", "complete -F _busbar busbar", LAUNCHED])


def zsh_quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def zsh_escaped(text):
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


def zsh_specs(text, indent):
    declared, also = all_options(text)
    settings = " ".join(name + "\\=" for name in settings_of(text).replace("=", "").split())
    specs = []
    for option in declared:
        help_text = zsh_escaped(option.text)
        value = ""
        if option.choices:
            value = f":value:({' '.join(option.choices)})"
        elif option.takes_file:
            value = ":file:_files"
        elif settings and "--vary" in option.names:
            value = f":setting:({settings})"
        elif option.argument:
            value = ":" + re.sub(r"[^\w ]", "", option.argument).strip().lower() + ":"
        group = "(" + " ".join(option.names) + ")" if len(option.names) > 1 else ""
        specs += [zsh_quoted(f"{group}{name}[{help_text}]{value}") for name in option.names]
    specs += [zsh_quoted(name) for name in also]
    return [f"{indent}{spec} \\" for spec in specs]


def zsh_file(summaries, helps, perf_text, perfs, comm_text):
    lines = [f"#compdef busbar {' '.join([*perfs, COMM, *LAUNCHERS])}", "# Made by packaging/manual.py", ""]
    for name, text in (("perf", perf_text), (COMM, comm_text)):
        lines += [f"_busbar_{name}() {{", "  _arguments \\", *zsh_specs(text, "    "), "    && return 0", "}", ""]
    for name, text in helps.items():
        words = " ".join(plain_words(name, helps))
        rest = f"'*:word:{{ compadd {words}; _files }}'" if words else "'*:file:_files'"
        lines += [f"_busbar_{name}() {{", "  _arguments \\", *zsh_specs(text, "    "), f"    {rest}", "}", ""]
    lines += [f"if [[ $service == ({'|'.join(LAUNCHERS)}) ]]; then", "  local i", "  for ((i = 2; i < CURRENT; i++)); do",
              "    if [[ ${words[i]:t} == (busbar|*_perf) ]]; then", "      shift $((i - 1)) words",
              "      ((CURRENT -= i - 1))", "      service=${words[1]:t}", '      _busbar "$@"', "      return", "    fi",
              "  done", "  _default", "  return", "fi",
              f'if [[ $service == {COMM} ]]; then', f"  _busbar_{COMM}", "  return", "fi",
              'if [[ $service != busbar ]]; then', "  _busbar_perf", "  return", "fi",
              "if ((CURRENT == 2)); then", "  local -a subcommands=(",
              *(f"    {zsh_quoted(name + ':' + zsh_escaped(text))}" for name, text in summaries.items()), "  )",
              "  _describe subcommand subcommands", "elif [[ $words[2] == help ]]; then", f"  compadd {' '.join(helps)}",
              "else", '  local name=${words[2]}', "  shift words",
              "  ((CURRENT--))",
              '  (($+functions[_busbar_$name])) && _busbar_$name', "fi", ""]
    return "\n".join(lines)


def main(build, out, version):
    top = help_of(build, "busbar")
    summaries = dict(re.findall(r"^  (\w+) {2,}(\S.*)$", top, re.MULTILINE))
    helps = {name: help_of(build, "busbar", name) for name in summaries}
    perfs = [f"{name}_perf" for name in COLLECTIVES]
    perf_text = help_of(build, perfs[0])
    comm_text = help_of(build, COMM)
    pages = ["busbar", *(f"busbar-{name}" for name in helps), perfs[0], COMM]
    for folder in ("man1", "bash", "zsh"):
        (out / folder).mkdir(parents=True, exist_ok=True)

    def write(path, text):
        (out / path).write_text(text, encoding="utf-8")

    write("man1/busbar.1", man_page("busbar", "accept, compare, diagnose and watch clusters by their collectives",
                                    top, version, pages))
    for name, text in helps.items():
        write(f"man1/busbar-{name}.1", man_page(f"busbar-{name}", summaries[name], text, version, pages))
    for name in perfs:
        write(f"man1/{name}.1", man_page(name, "measure and check a collective operation over NCCL or MPI", perf_text,
                                         version, pages) if name == perfs[0] else f".so man1/{perfs[0]}.1\n")
        write(f"bash/{name}", bash_perf(name, perf_text))
    write(f"man1/{COMM}.1", man_page(COMM, "time the making, use and end of communicators", comm_text, version, pages))
    write(f"bash/{COMM}", bash_perf(COMM, comm_text))
    write("bash/busbar", bash_busbar(helps, perf_text))
    for name in LAUNCHERS[:2]:  # Slurm may have a file for srun
        write(f"bash/{name}", 'source "${BASH_SOURCE[0]%/*}/busbar"\n')
    write("zsh/_busbar", zsh_file(summaries, helps, perf_text, perfs, comm_text))


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), sys.argv[3] if len(sys.argv) == 4 else "")
