"""Parser and type checker of the expression language.

    or_     := and_ ("or" and_)*
    and_    := not_ ("and" not_)*
    not_    := "not" not_ | test
    test    := sum [compare sum | ["not"] "in" "(" constant ("," constant)* ")"
                    | ["not"] "between" sum "and" sum | "is" ["not"] "null"]
    sum     := product (("+" | "-") product)*
    product := unary (("*" | "/" | "%") unary)*
    unary   := "-" unary | atom
    atom    := constant | column | "(" or_ ")" | function "(" or_ ("," or_)* ")"
             | "case" ("when" or_ "then" or_)+ ["else" or_] "end"

A hand-written recursive descent rather than an SQL parser with an allow-list: what is not in the
grammar cannot be expressed, and every error can point at a character and name a fix.
Limits: 4096 bytes of text, nesting 64, and a bound on the generated SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import cast

from dprelease.core.numeric import plain
from dprelease.core.patience import tick
from dprelease.query import nodes as n
from dprelease.query.functions import FUNCTIONS, Functions
from dprelease.query.nodes import Node, Type
from dprelease.query.tokens import MAX_DEPTH, Token, TokenReader
from dprelease.query.typecheck import Part, TypeChecker, constant
from dprelease.schema.column import Column, Kind
from dprelease.schema.naming import did_you_mean, nearest, quoted

MAX_SQL = 20_000

COLUMN_TYPES: Mapping[Kind, Type] = {
    Kind.identifier: Type.text,
    Kind.category: Type.text,
    Kind.node: Type.text,
    Kind.boolean: Type.boolean,
    Kind.integer: Type.number,
    Kind.number: Type.number,
    Kind.date: Type.date,
    Kind.timestamp: Type.timestamp,
}
_COMPARE = {"=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def between_steps(column: Column, value: Fraction, finer: Fraction) -> tuple[str, str, str]:
    """Return what is wrong with a constant that lies between two steps which nobody declared, why, and what to do."""
    assert column.step is not None
    step = plain(column.step)
    return (
        f"{plain(value)} lies between two steps of `{column.name}`",
        f"it has no `step`, so its cells are read in steps of {step} before anything is compared with them",
        f"add how precise its cells are to the column, at most `step: {plain(finer)}` (`step: {step}` if it is meant)",
    )


class Parser:
    """Turn one text into a typed tree, or raise ConfigError at the faulty character."""

    def __init__(
        self,
        text: str,
        columns: Mapping[str, Column],
        origin: str,
        *,
        extra: str = "",
    ) -> None:
        tick()
        self.columns = columns
        self.read = TokenReader(text, origin, extra)
        self.types = TypeChecker(self.read)
        self.functions = Functions(self.read, self.types)
        self.used: set[str] = set()
        self.depth = 0

    def parse(self) -> tuple[Node, Type]:
        """Return the tree and its type.

        Raises:
            ConfigError: syntax (DPR120), size (DPR121), unknown column (DPR122), mismatched types
                (DPR123), unknown or refused function (DPR124), chained comparison (DPR125), faulty
                constant (DPR126), null for a value (DPR129), a wrong number of arguments (DPR162), a
                value that its column cannot have (DPR164).
        """
        part = self._or()
        token = self.read.peek()
        if token.kind != "end":
            self.read.unexpected(token)
        if part.type is Type.null:
            self.read.fail("the expression is always null", part, code="DPR129")
        if n.depth(part.node) > MAX_DEPTH:
            self.read.too_deep(part)
        if n.sql_size(part.node) > MAX_SQL:
            self.read.too_deep(part)
        return part.node, part.type

    # --- grammar

    def _or(self) -> Part:
        return self._deeper(lambda: self._joined("or"))

    def _deeper(self, read: Callable[[], Part]) -> Part:
        """Return what is read one level further down."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.read.too_deep(self.read.peek())
        part = read()
        self.depth -= 1
        return part

    def _joined(self, op: str) -> Part:
        step = self._not if op == "and" else lambda: self._joined("and")
        parts = [step()]
        while self.read.word(op):
            self.read.next()
            parts.append(step())
        if len(parts) == 1:
            return parts[0]
        operands: list[Node] = []
        for part in parts:
            self.types.want(part, Type.boolean, f"`{op}` joins conditions")
            same = isinstance(part.node, n.Logic) and part.node.op == op
            operands.extend(part.node.operands if same else [part.node])  # type: ignore[union-attr]
        node = n.Logic("and" if op == "and" else "or", tuple(operands))
        return Part(node, Type.boolean, parts[0].start, parts[-1].end)

    def _not(self) -> Part:
        if not self.read.word("not"):
            return self._test()
        start = self.read.next().start
        part = self._deeper(self._not)
        self.types.want(part, Type.boolean, "`not` negates a condition")
        return Part(n.Not(part.node), Type.boolean, start, part.end)

    def _test(self) -> Part:
        left = self._sum()
        negated = self.read.word("not") and self.read.word(
            "in", "between", "like", "ilike", ahead=1
        )
        if negated:
            self.read.next()
        if self.read.word("in"):
            part = self._in(left)
        elif self.read.word("between"):
            part = self._between(left)
        elif self.read.word("is"):
            return self._is(left)
        elif self.read.peek().text in _COMPARE and self.read.peek().kind == "op":
            part = self._compare(left)
        else:
            if negated:
                self.read.unexpected(self.read.peek())
            return left
        if negated:
            part = Part(n.Not(part.node), Type.boolean, part.start, part.end)
        self._refuse_chain()
        return part

    def _refuse_chain(self) -> None:
        token = self.read.peek()
        if token.kind == "op" and token.text in _COMPARE:
            self.read.fail(
                "comparisons cannot be chained",
                token,
                why="a < b < c would compare a condition with a number",
                fix="write `a < b and b < c`, or `b between a and c`",
                code="DPR125",
            )

    def _compare(self, left: Part) -> Part:
        token = self.read.next()
        right = self._sum()
        op = _COMPARE[token.text]
        a, b = self.types.unify([left, right], f"`{token.text}` compares values of one type")
        if a.type is Type.boolean and op not in ("=", "!="):
            self.read.fail(
                f"`{token.text}` does not order conditions", token, fix="use = or !=", code="DPR123"
            )
        self._known(a, b)
        self._known(b, a)
        node = n.Compare(cast("n.CompareOp", op), a.node, b.node)
        return Part(node, Type.boolean, left.start, right.end)

    def _between(self, left: Part) -> Part:
        self.read.next()
        low = self._sum()
        self.read.expect_word("and")
        high = self._sum()
        a, b, c = self.types.unify([left, low, high], "`between` compares values of one type")
        if a.type is Type.boolean:
            self.read.fail("`between` does not order conditions", left, code="DPR123")
        self._known(a, b)
        self._known(a, c)
        return Part(n.Between(a.node, b.node, c.node), Type.boolean, left.start, high.end)

    def _known(self, left: Part, right: Part) -> None:
        """Refuse a constant that a cleaned value never is: the test would be idle, or hold from elsewhere on."""
        self._no_column_among(left, right)
        if max(n.depth(left.node), n.depth(right.node)) > MAX_DEPTH:
            self.read.too_deep(right)
        at = None if isinstance(left.node, n.Literal) else n.crossing(left.node, right.node)
        if at and not (of := self.columns[at[0]]).stepped and (finer := of.finer_step(at[1])):
            what, why, fix = between_steps(of, at[1], finer)
            self.read.fail(what, right, why=why, fix=fix, code="DPR164")
        column = self.columns.get(left.node.name) if isinstance(left.node, n.ColumnRef) else None
        if column is None or not isinstance(right.node, n.Literal):
            return
        if column.kind is not Kind.category or not column.values or right.node.value in column.keys:
            return
        near = nearest(str(right.node.value), column.keys)
        shown = ", ".join(f"'{key}'" for key in column.keys[:8])
        goes = f"'{column.other}'" if column.other is not None else "null"
        self.read.fail(
            f"'{str(right.node.value)[:30]}' is not a value of `{column.name}`",
            right,
            why=f"filters read cleaned values: whatever is not declared is {goes} to them",
            fix=f"did you mean '{near}'?"
            if near is not None
            else f"declare it, or use one of {shown}",
            code="DPR164",
        )

    def _no_column_among(self, *texts: Part) -> None:
        """Refuse a column in single quotes: a text beside another is the same for every row, whatever the rows hold."""
        values = [text.node.value for text in texts if isinstance(text.node, n.Literal)]
        name = next((value for value in values if value in self.columns), None)
        if isinstance(name, str) and len(values) == len(texts):
            self.read.fail(
                f"`'{name}'` is a text here, not the column",
                texts[values.index(name)],
                why="no row would be read: the answer is the same for all",
                fix=f"write the column without single quotes: {quoted(name)}",
                code="DPR127",
            )

    def _in(self, left: Part) -> Part:
        self.read.next()
        self.read.expect_op("(")
        if self.read.op(")"):
            self.read.fail("`in ()` has no values", self.read.peek(), fix="list at least one value")
        options = [constant(self.read, self.types)]
        while self.read.op(","):
            self.read.next()
            options.append(constant(self.read, self.types))
        end = self.read.expect_op(")").end
        first, *rest = self.types.unify([left, *options], "`in` compares values of one type")
        # a column that is a date meets timestamps: _unify widened all of them or none
        literals: list[n.Literal] = []
        for part in rest:
            self._known(first, part)
            assert isinstance(part.node, n.Literal)
            if part.node not in literals:
                literals.append(part.node)
        return Part(n.In(first.node, tuple(literals)), Type.boolean, left.start, end)

    def _is(self, left: Part) -> Part:
        self.read.next()
        negated = self.read.word("not")
        if negated:
            self.read.next()
        if not self.read.word("null"):
            self.read.fail(
                "`is` is followed by null or not null",
                self.read.peek(),
                fix="write `is null`, `is not null`, or compare with =",
            )
        end = self.read.next().end
        self._no_column_among(left)
        node: Node = n.IsNull(left.node)
        self._refuse_chain()
        return Part(n.Not(node) if negated else node, Type.boolean, left.start, end)

    def _sum(self) -> Part:
        return self._chain(self._product, "+", "-")

    def _product(self) -> Part:
        return self._chain(self._unary, "*", "/", "%")

    def _chain(self, operand: Callable[[], Part], *ops: str) -> Part:
        left = operand()
        while self.read.op(*ops):
            token = self.read.next()
            right = operand()
            for part in (left, right):
                if token.text == "-" and part.type in (Type.date, Type.timestamp):
                    self.read.fail(
                        "the unit of a difference of times must be said",
                        part,
                        fix="write e.g. `minutes_between(start, end)`, or days, hours, seconds",
                        code="DPR123",
                    )
                self.types.want(part, Type.number, f"`{token.text}` needs numbers")
            op = cast("n.ArithmeticOp", token.text)
            node = n.Arithmetic(op, left.node, right.node)
            left = Part(node, Type.number, left.start, right.end)
        return left

    def _unary(self) -> Part:
        if not self.read.op("-"):
            return self._atom()
        start = self.read.next().start
        part = self._deeper(self._unary)
        self.types.want(part, Type.number, "`-` needs a number")
        if isinstance(part.node, n.Literal) and isinstance(part.node.value, float):
            node: Node = n.Literal(0.0 - part.node.value, Type.number)
        else:
            node = n.Negate(part.node)
        return Part(node, Type.number, start, part.end)

    def _atom(self) -> Part:
        token = self.read.peek()
        if token.kind == "op" and token.text == "(":
            self.read.next()
            inner = self._or()
            end = self.read.expect_op(")").end
            return Part(inner.node, inner.type, token.start, end)
        if token.kind in ("number", "text"):
            return constant(self.read, self.types)
        if token.kind == "quoted":
            self.read.next()
            return self._column(token, token.text[1:-1].replace('""', '"'))
        if token.kind != "word":
            self.read.unexpected(token, wanted="a value")
        word = token.text.lower()
        if word in ("true", "false", "null"):
            return constant(self.read, self.types)
        if word in ("date", "timestamp") and self.read.peek(1).kind == "text":
            return constant(self.read, self.types)
        if word == "case":
            return self._case()
        if self.read.op("(", ahead=1) and word not in n.KEYWORDS:
            return self._call()
        if word in n.KEYWORDS:
            self.read.fail(
                f"unexpected `{token.text}`",
                token,
                why="a value was expected here",
                fix=f'a column of this name is written "{token.text}"',
            )
        self.read.next()
        return self._column(token, token.text)

    def _column(self, token: Token, name: str) -> Part:
        column = self.columns.get(name)
        if column is None:
            known = f"declared columns: {', '.join(sorted(self.columns)) or 'none'}"
            fix = did_you_mean(name, self.columns, known)
            rest = self.read.text[token.start :]
            if longer := [c for c in self.columns if len(c) > len(name) and rest.startswith(c)]:
                fix = f"put the column's name into double quotes: {quoted(max(longer, key=len))}"
            if name.lower() in ("none", "nan", "nat"):
                fix = "a missing value is found by `is null`"
            elif token.kind == "quoted" or self.read.peek(-2).text in _COMPARE:
                fix = f"a text takes single quotes: '{name}'; for a column, {fix}"
            self.read.fail(f"unknown column `{name}`", token, fix=fix, code="DPR122")
        kind = COLUMN_TYPES[column.kind]
        self.used.add(name)
        return Part(n.ColumnRef(name, kind), kind, token.start, token.end)

    def _case(self) -> Part:
        start = self.read.next().start
        if not self.read.word("when"):
            self.read.fail(
                "`case` is followed by `when`",
                self.read.peek(),
                fix="write `case when column = 'x' then … else … end`",
            )
        conditions: list[Part] = []
        values: list[Part] = []
        while self.read.word("when"):
            self.read.next()
            conditions.append(self._or())
            self.types.want(conditions[-1], Type.boolean, "`when` takes a condition")
            self.read.expect_word("then")
            values.append(self._or())
        if self.read.word("else"):
            self.read.next()
            values.append(self._or())
        else:
            at = self.read.peek()
            values.append(Part(n.Literal(None, Type.null), Type.null, at.start, at.end))
        end = self.read.expect_word("end").end
        return self.functions.choice(conditions, values, start, end)

    def _call(self) -> Part:
        token = self.read.peek()
        self.read.known_function(FUNCTIONS, "a filter sees one row and a fixed list of functions")
        arguments: list[Part] = []
        if not self.read.op(")"):
            arguments.append(self._or())
            while self.read.op(","):
                self.read.next()
                arguments.append(self._or())
        end = self.read.expect_op(")").end
        return self.functions.call(token, arguments, end)
