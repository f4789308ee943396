#!/usr/bin/env python3
"""Runs the sessions of a page of docs/ and compares what they print: check_page.py KODAMA PAGE [--accept]

A session is a block indented by four blanks that begins with a command:

    $ cat a.vsm             the first time that a file is shown, this is what it contains
    nop
    $ kodama sim a.vsm |    commands run with bash; what is shown is their output, then their standard error
    >   head -1             a command goes on
    1 steps (1 nop), 0 MV transfers, 4 cycles (0 waiting)
    [0]                     an exit code other than 0 stands in brackets

All sessions of a page share one directory, where `tools` is. ` ...` in a shown line stands for anything: a time, the
last digits of what the CPU's floating point makes of a sum. An indented block that is no session is an error: what is
not run stands in a fenced block. --accept writes what was printed into the page. Skipped (exit code 77) where a page
makes models and python3-onnx is missing.
"""
import os
import re
import subprocess
import sys
import tempfile

INDENT = '    '


def run(command, directory, environment):
    done = subprocess.run(['bash', '-c', command], cwd=directory, env=environment, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    code = [f'[{done.returncode}]'] if done.returncode else []
    # In a pipe the order of both would be chance.
    return [line.rstrip() for line in (done.stdout + done.stderr).splitlines()] + code


def matches(found, expected):
    """Whether what is printed is what the page shows."""
    return len(found) == len(expected) and all(
        line == shown or re.fullmatch(re.escape(shown).replace(r'\ \.\.\.', ' .*'), line)
        for line, shown in zip(found, expected))


def shown_file(command, directory):
    """The path of the file that a `cat` defines, or None."""
    words = command.split()
    if len(words) != 2 or words[0] != 'cat' or '/' in words[1]:
        return None
    path = os.path.join(directory, words[1])
    return None if os.path.exists(path) else path


def check(page, directory, environment):
    """The page as it should be, the number of commands, and the errors."""
    with open(page, encoding='utf-8') as file:
        lines = file.read().splitlines()
    result, errors, commands = [], [], 0
    fenced = False
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith('```'):
            fenced = not fenced
        if fenced or not line.startswith(INDENT):
            result.append(line)
            at += 1
            continue
        if not line.startswith(INDENT + '$ '):
            errors.append(f'{page}:{at + 1}: an indented block that begins with no command')
            while at < len(lines) and lines[at].startswith(INDENT):
                result.append(lines[at])
                at += 1
            continue
        first = at
        command = [line[len(INDENT) + 2:]]
        result.append(line)
        at += 1
        while at < len(lines) and lines[at].startswith(INDENT + '> '):
            command.append(lines[at][len(INDENT) + 2:])
            result.append(lines[at])
            at += 1
        expected = []
        while at < len(lines) and lines[at].startswith(INDENT) and not lines[at].startswith(INDENT + '$ '):
            expected.append(lines[at][len(INDENT):])
            at += 1
        commands += 1
        text = '\n'.join(command)
        path = shown_file(text, directory)
        if path is not None:
            with open(path, 'w', encoding='utf-8') as file:
                file.writelines(part + '\n' for part in expected)
            found = expected
        else:
            found = run(text, directory, environment)
        if matches(found, expected):
            found = expected
        else:
            errors.append('\n'.join([f'{page}:{first + 1}: $ {text}', '  the page shows:'] +
                                    ['    ' + part for part in expected] + ['  printed is:'] +
                                    ['    ' + part for part in found]))
        result += [INDENT + part for part in found]
    return result, commands, errors


def main():
    kodama, page = os.path.abspath(sys.argv[1]), sys.argv[2]
    root = os.path.abspath(os.path.join(os.path.dirname(__file__), '..', '..'))
    environment = dict(os.environ, KODAMA_CACHE='off', KODAMA_CONFIG_DIR=os.path.join(root, 'configs'),
                       PATH=os.path.dirname(kodama) + ':/usr/bin:' + os.environ['PATH'], OMP_WAIT_POLICY='PASSIVE')
    with open(page, encoding='utf-8') as file:
        makes_models = '$ tools/zoo.py ' in file.read()
    if makes_models and subprocess.run(['/usr/bin/python3', '-c', 'import onnx'], stderr=subprocess.DEVNULL).returncode:
        print('skipped: python3-onnx is missing')
        return 77
    with tempfile.TemporaryDirectory() as directory:
        os.symlink(os.path.join(root, 'tools'), os.path.join(directory, 'tools'))
        result, commands, errors = check(page, directory, environment)
    if '--accept' in sys.argv[3:]:
        with open(page, 'w', encoding='utf-8') as file:
            file.writelines(line + '\n' for line in result)
        return 0
    print('\n'.join(errors) or f'{page}: {commands} commands')
    return 1 if errors or not commands else 0


sys.exit(main())
