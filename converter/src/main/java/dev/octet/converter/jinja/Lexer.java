package dev.octet.converter.jinja;

import dev.octet.converter.jinja.Token.Kind;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** Cuts a template into tokens, with {@code trim_blocks} and {@code lstrip_blocks} on, as in jinja2.lexer. */
final class Lexer {
    private static final Pattern RAW =
            Pattern.compile("\\{%([-+]?)\\s*raw\\s*(?:-%\\}\\s*|%\\})", Pattern.UNICODE_CHARACTER_CLASS);
    private static final Pattern RAW_END =
            Pattern.compile("\\{%([-+]?)\\s*endraw\\s*(?:\\+%\\}|-%\\}\\s*|%\\}\n?)", Pattern.UNICODE_CHARACTER_CLASS);
    private static final Pattern SPACE = Pattern.compile("\\s+", Pattern.UNICODE_CHARACTER_CLASS);
    private static final Pattern NAME = Pattern.compile("[\\p{L}\\p{Nl}_][\\p{L}\\p{Nl}\\p{Mn}\\p{Mc}\\p{Nd}\\p{Pc}]*");
    private static final Pattern INTEGER =
            Pattern.compile("0b[01]+|0o[0-7]+|0x[0-9a-f]+|\\d+(?:_\\d+)*", Pattern.CASE_INSENSITIVE);
    private static final Pattern DECIMAL = Pattern.compile(
            "\\d+(?:_\\d+)*(?:\\.\\d+(?:_\\d+)*(?:e[+\\-]?\\d+)?|e[+\\-]?\\d+)", Pattern.CASE_INSENSITIVE);
    private static final Pattern STRING =
            Pattern.compile("'([^'\\\\]*(?:\\\\.[^'\\\\]*)*+)'|\"([^\"\\\\]*(?:\\\\.[^\"\\\\]*)*+)\"", Pattern.DOTALL);
    private static final Pattern OPERATOR = Pattern.compile("//|\\*\\*|==|!=|>=|<=|[+\\-/*%~\\[\\](){}><=.:|,;]");

    private final String source;
    private final List<Token> tokens = new ArrayList<>();
    private int at;
    private boolean lineStarting = true;
    private int lastLine = 1;
    private int lastPosition;

    private Lexer(String source) {
        this.source = source;
    }

    static List<Token> tokens(String template) {
        String source = template.replace("\r\n", "\n").replace('\r', '\n');
        Lexer lexer = new Lexer(source.endsWith("\n") ? source.substring(0, source.length() - 1) : source);
        lexer.root();
        return lexer.tokens;
    }

    private int line(int position) {
        return 1 + newlines(0, position);
    }

    private void add(Kind kind, String text, int position) {
        lastLine += newlines(lastPosition, position);
        lastPosition = position;
        tokens.add(new Token(kind, text, lastLine));
    }

    private int newlines(int from, int to) {
        int n = 0;
        for (int i = from; i < to; i++) {
            n += source.charAt(i) == '\n' ? 1 : 0;
        }
        return n;
    }

    private void root() {
        while (at < source.length()) {
            int open = opening(at);
            if (open < 0) {
                add(Kind.DATA, source.substring(at), at);
                at = source.length();
                break;
            }
            char kind = source.charAt(open + 1);
            Matcher raw = RAW.matcher(source).region(open, source.length());
            boolean isRaw = kind == '%' && raw.lookingAt();
            char sign = open + 2 < source.length() ? source.charAt(open + 2) : ' ';
            data(at, open, sign, kind == '{');
            if (isRaw) {
                raw(raw.end());
            } else if (kind == '#') {
                comment(open);
            } else {
                int begin = open + (sign == '-' || (sign == '+' && kind != '{') ? 3 : 2);
                add(kind == '%' ? Kind.BLOCK_BEGIN : Kind.VARIABLE_BEGIN, source.substring(open, begin), open);
                at = begin;
                expression(kind == '%');
            }
        }
        add(Kind.END, "", source.length());
    }

    /** The next of the three openings; -1 for none. */
    private int opening(int from) {
        for (int i = source.indexOf('{', from); i >= 0 && i + 1 < source.length(); i = source.indexOf('{', i + 1)) {
            char next = source.charAt(i + 1);
            if (next == '{' || next == '%' || next == '#') {
                return i;
            }
        }
        return -1;
    }

    /** Text in front of an opening, stripped as its sign asks for. */
    private void data(int from, int to, char sign, boolean variable) {
        String text = source.substring(from, to);
        if (sign == '-') {
            text = PythonText.rstrip(text);
        } else if (sign != '+' && !variable) {
            int start = text.lastIndexOf('\n') + 1;
            if ((start > 0 || lineStarting)
                    && PythonText.lstrip(text.substring(start)).isEmpty()) {
                text = text.substring(0, start);
            }
        }
        if (!text.isEmpty()) {
            add(Kind.DATA, text, from);
        }
        lineStarting = false;
    }

    private void raw(int from) {
        Matcher end = RAW_END.matcher(source);
        if (!end.find(from)) {
            throw new JinjaException("the raw block has no end").atLine(line(from));
        }
        String sign = end.group(1);
        data(from, end.start(), sign.isEmpty() ? ' ' : sign.charAt(0), false);
        at = end.end();
        lineStarting = at > 0 && source.charAt(at - 1) == '\n';
    }

    private void comment(int open) {
        int end = source.indexOf("#}", open + 2);
        if (end < 0) {
            throw new JinjaException("the comment has no end").atLine(line(open));
        }
        char sign = source.charAt(end - 1);
        at = end + 2;
        close(end - 1 > open + 1 ? sign : ' ', true);
    }

    /** What follows the end of a block, comment or variable. */
    private void close(char sign, boolean trims) {
        if (sign == '-') {
            Matcher space = SPACE.matcher(source).region(at, source.length());
            at = space.lookingAt() ? space.end() : at;
        } else if (trims && sign != '+' && at < source.length() && source.charAt(at) == '\n') {
            at++;
        }
        lineStarting = at > 0 && source.charAt(at - 1) == '\n';
    }

    private void expression(boolean block) {
        String end = block ? "%}" : "}}";
        Deque<Character> open = new ArrayDeque<>();
        while (true) {
            Matcher space = SPACE.matcher(source).region(at, source.length());
            at = space.lookingAt() ? space.end() : at;
            if (at >= source.length()) {
                throw new JinjaException("the template ends inside " + (block ? "a statement" : "an expression"))
                        .atLine(line(at));
            }
            if (open.isEmpty()) {
                boolean signed = source.startsWith("-" + end, at) || (block && source.startsWith("+" + end, at));
                if (signed || source.startsWith(end, at)) {
                    char sign = signed ? source.charAt(at) : ' ';
                    int begin = at;
                    at += end.length() + (signed ? 1 : 0);
                    add(block ? Kind.BLOCK_END : Kind.VARIABLE_END, end, begin);
                    close(sign, block);
                    return;
                }
            }
            token(open);
        }
    }

    private void token(Deque<Character> open) {
        int begin = at;
        String text;
        if ((text = take(DECIMAL)) != null) {
            add(Kind.FLOAT, text.replace("_", ""), begin);
        } else if ((text = take(INTEGER)) != null) {
            add(Kind.INTEGER, text.replace("_", "").toLowerCase(Locale.ROOT), begin);
        } else if ((text = take(NAME)) != null) {
            add(Kind.NAME, text, begin);
        } else if ((text = take(STRING)) != null) {
            add(Kind.STRING, unescaped(text.substring(1, text.length() - 1)), begin);
        } else if ((text = take(OPERATOR)) != null) {
            balance(text.charAt(0), open);
            add(Kind.OPERATOR, text, begin);
        } else {
            throw new JinjaException("unexpected character '" + Character.toString(source.codePointAt(at)) + "'")
                    .atLine(line(at));
        }
    }

    private void balance(char c, Deque<Character> open) {
        if (c == '(' || c == '[' || c == '{') {
            open.push(c == '(' ? ')' : c == '[' ? ']' : '}');
        } else if (c == ')' || c == ']' || c == '}') {
            if (open.isEmpty() || open.pop() != c) {
                throw new JinjaException("unexpected '" + c + "'").atLine(line(at));
            }
        }
    }

    private @Nullable String take(Pattern pattern) {
        Matcher m = pattern.matcher(source).region(at, source.length());
        if (!m.lookingAt()) {
            return null;
        }
        at = m.end();
        return m.group();
    }

    /** Escapes as in Python's literals. */
    private String unescaped(String text) {
        if (text.indexOf('\\') < 0) {
            return text;
        }
        StringBuilder b = new StringBuilder();
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c != '\\' || i + 1 == text.length()) {
                b.append(c);
                continue;
            }
            char e = text.charAt(++i);
            switch (e) {
                case '\n' -> {}
                case 'n' -> b.append('\n');
                case 't' -> b.append('\t');
                case 'r' -> b.append('\r');
                case 'b' -> b.append('\b');
                case 'f' -> b.append('\f');
                case 'a' -> b.append('\u0007');
                case 'v' -> b.append('\u000b');
                case '\\', '\'', '"' -> b.append(e);
                case 'x' -> i = code(text, i, 2, b);
                case 'u' -> i = code(text, i, 4, b);
                case 'U' -> i = code(text, i, 8, b);
                default -> {
                    if (e >= '0' && e <= '7') {
                        int n = 0;
                        int end = Math.min(text.length(), i + 3);
                        for (; i < end && text.charAt(i) >= '0' && text.charAt(i) <= '7'; i++) {
                            n = n * 8 + text.charAt(i) - '0';
                        }
                        i--;
                        b.append((char) n);
                    } else {
                        b.append('\\').append(e);
                    }
                }
            }
        }
        return b.toString();
    }

    private int code(String text, int i, int digits, StringBuilder to) {
        int end = i + 1 + digits;
        try {
            to.appendCodePoint(Integer.parseInt(text.substring(i + 1, end), 16));
        } catch (IllegalArgumentException | StringIndexOutOfBoundsException e) {
            throw new JinjaException("'" + text + "' has an escape without its digits").atLine(line(at));
        }
        return end - 1;
    }
}
