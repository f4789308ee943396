#!/usr/bin/env python3
"""Holds the grammar of docs/vsm.md and the assembler to each other: check_grammar.py KODAMA SOURCE_DIRECTORY [SEED]

Each line that the assembler takes must be a sentence of the grammar: all lines of the .vsm files of the test suite, and
random changes of them. And no sentence may be refused for its syntax: random sentences, and the changed lines again.
Operands and statements in the text of the page are sentences, too.
The grammar has no recursion, so it becomes a regular expression.
"""
import glob
import os
import random
import re
import subprocess
import sys
import tempfile

CHARACTERS = {'any': ('.', 'a$ "/'), 'bit': ('[01]', '01'), 'digit': ('[0-9]', '0246789'), 'hexdigit': ('[0-9a-fA-F]', '012345aF')}
HEX = {'longword': (16, 16), 'hex3': (1, 3), 'hex9': (1, 9)}
BLANKS = {'_': '[ \t]+', '~': '[ \t]*'}
# Which issue groups the opcodes of a rule belong to; the others have rules of their own.
GROUPS = {'simple': ('alu', 'mau-calc', 'mau-mwrite', 'mau-mread', 'noforward'), 'l1bm': ('l1bm',),
          'l2bm': ('l2bm', 'l2bmdarw'), 'transfer': ('mv',)}
SYNTAX_ERROR = re.compile(r': (expected|unexpected|unknown) |is not an? (number|integer)')
MOST_ERRORS = 900  # the assembler stops at 1000


def read_opcodes(source):
    """Rule -> its opcodes, from the pages of the instruction set."""
    opcodes = {rule: [] for rule in GROUPS}
    for path in glob.glob(os.path.join(source, 'docs/isa/*.md')):
        with open(path, encoding='utf-8') as file:
            page = file.read()
        group = re.search(r'^Issue group: ([a-z0-9-]+)', page, re.M)
        if group is None:
            continue
        names = re.findall(r'`([^`]+)`', page.split('## Mnemonics')[1].split('##')[0])
        for rule, groups in GROUPS.items():
            if group[1] in groups:
                opcodes[rule] += [name for name in names if name not in ('imm', 'immu')]
    opcodes['l1bm'] += [name for name in opcodes['l2bm'] if name == 'l2bm']
    opcodes['l2bm'].remove('l2bm')
    opcodes['simple'] += [precision + 'relu0' for precision in 'dfh']
    return opcodes


def parse_rule(text):
    """Nested tuples: ('or' | 'all', parts), ('any' | 'maybe', part), ('text' | 'name', value)."""
    tokens = re.findall(r"'[^']*'|[a-z0-9]+|[][{}()|_~]", text)
    at = 0

    def choice(end):
        nonlocal at
        parts, sequence = [], []
        while at < len(tokens) and tokens[at] != end:
            token = tokens[at]
            at += 1
            if token == '|':
                parts.append(('all', sequence))
                sequence = []
            elif token in '[{(':
                inner = choice({'[': ']', '{': '}', '(': ')'}[token])
                at += 1
                sequence.append(inner if token == '(' else ('maybe' if token == '[' else 'any', inner))
            elif token[0] == "'":
                sequence.append(('text', token[1:-1]))
            else:
                sequence.append(('name', token))
        return ('or', parts + [('all', sequence)])

    return choice(None)


class Grammar:
    def __init__(self, source):
        self.opcodes = read_opcodes(source)
        with open(os.path.join(source, 'docs/vsm.md'), encoding='utf-8') as file:
            before, after = file.read().split('## Grammar')
        text = after.split('```')[1]
        # What the page says in passing: operands with addresses, and statements.
        spans = [span for span in re.findall(r'`([^`]+)`', before) if '<' not in span and '…' not in span]
        self.operands = [span for span in spans if re.fullmatch(r'\$\S*[0-9[]\S*', span)]
        self.statements = [span for span in spans if re.match(r'(?!kodama)[a-z][a-z0-9@/]* [^=]*\$', span)]
        # A rule goes on in lines that begin with a blank.
        rules = [line.split('=', 1) for line in re.sub(r'\n +', ' ', text).splitlines() if line]
        self.rules = {name.strip(): parse_rule(rule) for name, rule in rules}

    def pattern(self, node, rule):
        kind, value = node
        if kind == 'or':
            return '(?:' + '|'.join(self.pattern(part, rule) for part in value) + ')'
        if kind == 'all':
            return ''.join(self.pattern(part, rule) for part in value)
        if kind == 'maybe':
            return self.pattern(value, rule) + '?'
        if kind == 'any':
            return self.pattern(value, rule) + '*'
        if kind == 'text':
            return re.escape(value)
        if value == 'opcode':
            return '(?:' + '|'.join(map(re.escape, self.opcodes[rule])) + ')'
        if value in HEX:
            return '[0-9a-fA-F]{%d,%d}' % HEX[value]
        if value in CHARACTERS:
            return CHARACTERS[value][0]
        return BLANKS.get(value) or self.pattern(self.rules[value], value)

    def sentence(self, chance, node, rule):
        kind, value = node
        if kind == 'or':
            return self.sentence(chance, chance.choice(value), rule)
        if kind == 'all':
            return ''.join(self.sentence(chance, part, rule) for part in value)
        if kind == 'maybe':
            return self.sentence(chance, value, rule) if chance.random() < 0.4 else ''
        if kind == 'any':
            return ''.join(self.sentence(chance, value, rule) for _ in range(chance.choice((0, 0, 1, 1, 2, 3))))
        if kind == 'text':
            return value
        if value == 'opcode':
            return chance.choice(self.opcodes[rule])
        if value in HEX:
            return ''.join(chance.choice('0123456789abCDEF') for _ in range(chance.randint(*HEX[value])))
        if value in CHARACTERS:
            return chance.choice(CHARACTERS[value][1])
        if value in BLANKS:
            return chance.choice((' ', ' ', '  ', '\t') if value == '_' else ('', '', ' ', '\t '))
        return self.sentence(chance, self.rules[value], value)


def errors_of(kodama, lines, directory, environment):
    """Line number (from 0) -> message of the assembler."""
    errors = {}
    for begin in range(0, len(lines), MOST_ERRORS):
        path = os.path.join(directory, 'lines.vsm')
        with open(path, 'w', encoding='utf-8', newline='') as file:
            file.writelines(line + '\n' for line in lines[begin:begin + MOST_ERRORS])
        done = subprocess.run([kodama, 'asm', path, '-o', os.path.join(directory, 'out.vsm')], env=environment, text=True,
                              stderr=subprocess.PIPE, check=False)
        for line in done.stderr.splitlines():
            found = re.search(r'lines\.vsm:(\d+)(:.*)', line)
            if found:
                errors[begin + int(found[1]) - 1] = found[2]
            elif not line.startswith('wrote '):
                sys.exit(f'the assembler says: {line}')
    return errors


def changed(chance, line):
    for _ in range(chance.choice((1, 1, 2))):
        at = chance.randrange(len(line) + 1)
        text = chance.choice(' \t;/@$-#"[],.lvjter0x1bnipcd')
        line = line[:at] + chance.choice((text, '')) + line[at + chance.choice((0, 1)):]
    return line


def main():
    kodama, source = sys.argv[1:3]
    chance = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    grammar = Grammar(source)
    whole = re.compile(grammar.pattern(('name', 'line'), 'line'))
    known = set()
    for path in glob.glob(os.path.join(source, 'testsuite/**/*.vsm'), recursive=True):
        with open(path, encoding='utf-8') as file:
            # An answer's `!` is the judge's.
            known |= {line.split('!')[0] for line in file.read().splitlines() if len(line) < 200}
    known = sorted(known)
    lines = known + [changed(chance, chance.choice(known)) for _ in range(6000)]
    lines += [grammar.sentence(chance, grammar.rules['line'], 'line') for _ in range(6000)]
    lines = [line for line in lines if not re.match(r'[ \t]*quit', line)]  # what follows is not read
    environment = dict(os.environ, KODAMA_CACHE='off', KODAMA_CONFIG_DIR=os.path.join(source, 'configs'))
    with tempfile.TemporaryDirectory() as directory:
        errors = errors_of(kodama, lines, directory, environment)
    wrong, taken = [], 0
    for rule, examples in (('operand', grammar.operands), ('line', grammar.statements)):
        sentence = re.compile(grammar.pattern(('name', rule), rule))
        wrong += [f'the page shows what is no {rule}: {text}' for text in examples if not sentence.fullmatch(text)]
    for number, line in enumerate(lines):
        error, matches = errors.get(number), whole.fullmatch(line) is not None
        taken += error is None
        if error is None and not matches:
            wrong.append(f'the assembler takes it, the grammar does not: {line!r}')
        # That a transfer needs a size is beyond the grammar.
        if error is not None and matches and SYNTAX_ERROR.search(error) and 'expected the size' not in error:
            wrong.append(f'the grammar takes it, the assembler does not: {line!r}{error}')
    print('\n'.join(wrong[:20]) or f'{len(lines)} lines, {taken} of them right')
    return 1 if wrong or taken < 1000 else 0


sys.exit(main())
