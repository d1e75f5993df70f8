package dev.octet.converter.jinja;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
final class JinjaTemplateTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Optional<LocalDateTime> TODAY =
            Optional.of(LocalDate.of(2026, 1, 31).atStartOfDay());

    private static Map<String, Map<String, @Nullable Object>> conversations() throws IOException {
        Map<String, Map<String, @Nullable Object>> named = new HashMap<>();
        List<Map<String, @Nullable Object>> all =
                JSON.readValue(TESTDATA.resolve("chat/conversations.json").toFile(), new TypeReference<>() {});
        for (Map<String, @Nullable Object> conversation : all) {
            Map<String, @Nullable Object> variables = new HashMap<>(conversation);
            variables.putIfAbsent("tools", null);
            variables.putIfAbsent("documents", null);
            variables.putIfAbsent("add_generation_prompt", false);
            variables.put("bos_token", "<s>");
            variables.put("eos_token", "</s>");
            named.put(String.valueOf(variables.remove("name")), variables);
        }
        return named;
    }

    @Test
    void templates_of_every_family_render_as_in_transformers_or_refuse_where_it_does() throws IOException {
        Map<String, Map<String, @Nullable Object>> conversations = conversations();
        int compared = 0;
        List<String> differing = new ArrayList<>();
        for (JsonNode row :
                JSON.readTree(TESTDATA.resolve("golden/chat/rendered.json").toFile())) {
            String template = row.path("template").asText();
            String source = Files.readString(TESTDATA.resolve("chat/templates/" + template + ".jinja"));
            String name = template + ": " + row.path("conversation").asText();
            Map<String, @Nullable Object> variables = Objects.requireNonNull(
                    conversations.get(row.path("conversation").asText()));
            String expected =
                    row.path("text").isNull() ? "refused" : row.path("text").asText();
            String marked = row.path("marked").toString();
            try {
                RenderedTemplate got = JinjaTemplate.of(source).render(variables, TODAY);
                if (!expected.equals(got.text())) {
                    differing.add(name + "\n--- expected\n" + expected + "\n--- got\n" + got.text());
                }
                if (!row.path("text").isNull()) {
                    assertEquals(marked, points(got), name);
                }
            } catch (JinjaException e) {
                if (!row.path("text").isNull()) {
                    differing.add(name + ": " + e.getMessage());
                }
            }
            compared++;
        }
        assertEquals(List.of(), differing);
        assertEquals(132, compared);
    }

    /** The marked parts in code points, as transformers counts. */
    private static String points(RenderedTemplate rendered) {
        List<List<Integer>> parts = new ArrayList<>();
        String text = rendered.text();
        rendered.generated()
                .forEach(s -> parts.add(List.of(text.codePointCount(0, s.from()), text.codePointCount(0, s.to()))));
        return parts.toString().replace(" ", "");
    }

    private static String render(String template) {
        return JinjaTemplate.of(template)
                .render(Map.of("messages", List.of()), TODAY)
                .text();
    }

    private static String refused(String template) {
        return String.valueOf(
                assertThrows(JinjaException.class, () -> render(template)).getMessage());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '@',
            quoteCharacter = '`',
            value = {
                "{% for i in x %} @ line 1: the template ends",
                "{{ 1 + }} @ line 1: unexpected '}}'",
                "{% if true %}{% endfor %} @ there is no statement 'endfor'",
                "{% include 'x' %} @ there is no statement 'include'",
                "{{ x | nosuch }} @ there is no filter 'nosuch'",
                "{{ x is nosuch }} @ there is no test 'nosuch'",
                "{{ nothing.here }} @ 'nothing' is undefined",
                "{{ 'a' + 1 }} @ unsupported operands of +: str and int",
                "{{ messages.append(1) }} @ would change a list",
                "{{ {}.update(a=1) }} @ would change a dict",
                "{{ ''.__class__.__mro__ }} @ is undefined",
                "{{ range(1000000) | length }} @ more than 100000 numbers",
                "{{ 'a' * 100000000 }} @ longer than",
                "{{ 9 ** 99999 }} @ bits",
                "{{ 1 / 0 }} @ division by zero",
                "{{ 'x' | center(99999999999) }}{% macro m() %}{{ m() }}{% endmacro %}{{ m() }} @ calls and blocks"
                        + " within each other",
                "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %} @ steps",
            })
    void what_a_template_cannot_do_is_an_error_with_its_reason(String template, String reason) {
        String message = refused(template);
        assertTrue(message.contains(reason), message);
    }

    @Test
    void nesting_without_end_is_refused() {
        assertTrue(refused("{{ " + "(".repeat(5000) + "1" + ")".repeat(5000) + " }}")
                .contains("deep"));
        assertTrue(refused("{% if true %}".repeat(5000)).contains("deep"));
    }

    @Test
    void an_error_names_its_line() {
        assertTrue(refused("a\nb\n{{ nothing.here }}\n").startsWith("line 3: "));
    }

    @Test
    void what_a_template_raises_is_its_own_message() {
        JinjaException e = assertThrows(JinjaException.class, () -> render("{{ raise_exception('take turns') }}"));
        assertEquals("take turns", e.getMessage());
        assertTrue(e.isRaisedByTemplate());
    }

    @Test
    void a_template_that_asks_for_the_date_without_one_is_refused() {
        JinjaTemplate template = JinjaTemplate.of("{{ strftime_now('%d %b %Y') }}");
        assertEquals("31 Jan 2026", template.render(Map.of(), TODAY).text());
        JinjaException e = assertThrows(JinjaException.class, () -> template.render(Map.of(), Optional.empty()));
        assertTrue(String.valueOf(e.getMessage()).contains("today's date"), e.getMessage());
    }
}
