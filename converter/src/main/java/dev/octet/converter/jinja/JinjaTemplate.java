package dev.octet.converter.jinja;

import java.time.LocalDateTime;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * A template of chats: what Jinja 3.1 makes of its source under transformers' settings, with {@code tojson}, {@code raise_exception} and
 * {@code strftime_now} as there. A list or dictionary cannot be changed; there are no imports, blocks or inheritance.
 */
public final class JinjaTemplate {
    /** Characters of a template's source. */
    static final int MAX_SOURCE = 1 << 20;

    private static final Pattern GENERATION = Pattern.compile("\\{%[-+]?\\s*generation\\s*[-+]?%\\}");

    private final List<Statement> body;
    private final boolean generation;

    private JinjaTemplate(List<Statement> body, boolean generation) {
        this.body = body;
        this.generation = generation;
    }

    /**
     * Parses a template.
     *
     * @throws JinjaException when it is not one, or uses what templates of chats do not have; the message has the line
     */
    public static JinjaTemplate of(String source) {
        if (source.length() > MAX_SOURCE) {
            throw new JinjaException("the template is longer than " + MAX_SOURCE + " characters");
        }
        return new JinjaTemplate(
                Parser.parse(source), GENERATION.matcher(source).find());
    }

    /** Whether the template marks what the assistant writes, by {@code generation} blocks. */
    public boolean marksGeneration() {
        return generation;
    }

    /**
     * Renders the template.
     *
     * @param variables maps, lists, text, numbers, truth values and null, by name
     * @param now the time for {@code strftime_now}; empty where asking for it is an error
     * @throws JinjaException when a statement fails, {@linkplain JinjaException#isRaisedByTemplate or the template refuses}; the message has
     *     the line
     */
    public RenderedTemplate render(Map<String, ? extends @Nullable Object> variables, Optional<LocalDateTime> now) {
        Map<String, @Nullable Object> values = new HashMap<>();
        variables.forEach((name, value) -> values.put(name, PythonValues.of(value)));
        Callee clock = (positional, named) -> strftime(
                new Given("strftime_now", positional, named).of("format").text(0, "format"),
                now.orElseThrow(() -> new JinjaException("the template asks for today's date")));
        values.put("strftime_now", clock);
        try {
            return Interpreter.render(body, values);
        } catch (StackOverflowError e) {
            throw new JinjaException("the template nests its calls too deeply");
        }
    }

    /** {@code datetime.strftime} in the C locale. */
    private static String strftime(String format, LocalDateTime t) {
        StringBuilder b = new StringBuilder();
        for (int i = 0; i < format.length(); i++) {
            char c = format.charAt(i);
            if (c != '%' || i + 1 == format.length()) {
                b.append(c);
                continue;
            }
            char d = format.charAt(++i);
            boolean unpadded = d == '-' && i + 1 < format.length();
            d = unpadded ? format.charAt(++i) : d;
            String form = unpadded ? "%d" : "%02d";
            b.append(
                    switch (d) {
                        case 'd' -> number(form, t.getDayOfMonth());
                        case 'm' -> number(form, t.getMonthValue());
                        case 'H' -> number(form, t.getHour());
                        case 'I' -> number(form, (t.getHour() + 11) % 12 + 1);
                        case 'M' -> number(form, t.getMinute());
                        case 'S' -> number(form, t.getSecond());
                        case 'y' -> number(form, t.getYear() % 100);
                        case 'Y' -> String.valueOf(t.getYear());
                        case 'j' -> number(unpadded ? "%d" : "%03d", t.getDayOfYear());
                        case 'p' -> t.getHour() < 12 ? "AM" : "PM";
                        case 'b', 'h' -> capitalized(t.getMonth().name()).substring(0, 3);
                        case 'B' -> capitalized(t.getMonth().name());
                        case 'a' -> capitalized(t.getDayOfWeek().name()).substring(0, 3);
                        case 'A' -> capitalized(t.getDayOfWeek().name());
                        case 'F' -> strftime("%Y-%m-%d", t);
                        case 'T' -> strftime("%H:%M:%S", t);
                        case '%' -> "%";
                        default -> throw new JinjaException("strftime_now: unknown %" + d);
                    });
        }
        return b.toString();
    }

    private static String number(String form, int value) {
        return String.format(Locale.ROOT, form, value);
    }

    private static String capitalized(String name) {
        return name.charAt(0) + name.substring(1).toLowerCase(Locale.ROOT);
    }
}
