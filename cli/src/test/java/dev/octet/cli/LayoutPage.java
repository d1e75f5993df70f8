package dev.octet.cli;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * docs/layout.md as tests read it.
 *
 * @param modules from the bottom up: a module may use those named before it; modules in braces, one step here, do not see each other
 * @param rooms of each module that has a table, from the bottom up; rooms in one row, one step here, do not see each other
 */
record LayoutPage(List<List<String>> modules, Map<String, List<List<String>>> rooms) {
    private static final Pattern MODULES = Pattern.compile("^Modules point one way: ([^;.]*)", Pattern.MULTILINE);
    private static final Pattern NAME = Pattern.compile("`([^`]+)`");
    private static final Pattern ROOM = Pattern.compile("[a-z][a-z0-9]*");

    LayoutPage {
        modules = List.copyOf(modules);
        rooms = Map.copyOf(rooms);
    }

    static LayoutPage read() throws IOException {
        Path page = Path.of(System.getProperty("octet.testdata")).resolveSibling("docs/layout.md");
        return of(Files.readString(page));
    }

    static LayoutPage of(String text) {
        Matcher m = MODULES.matcher(text);
        if (!m.find()) {
            throw new IllegalStateException("docs/layout.md has no line that begins 'Modules point one way: '");
        }
        List<List<String>> modules = new ArrayList<>();
        for (String step : m.group(1).split("←", -1)) {
            modules.add(names(step));
        }
        Map<String, List<List<String>>> rooms = new LinkedHashMap<>();
        for (String section : text.split("\n## ", -1)) {
            String title = section.substring(0, section.indexOf('\n'));
            String module = title.contains(":") ? title.substring(0, title.indexOf(':')) : title;
            List<List<String>> table = table(section);
            if (!table.isEmpty()) {
                rooms.put(module, table);
            }
        }
        return new LayoutPage(modules, rooms);
    }

    /** The rooms in the first column of a section's table; rows of classes are those of the module's root. */
    private static List<List<String>> table(String section) {
        return section.lines()
                .filter(l -> l.startsWith("| `"))
                .map(l -> names(l.substring(0, l.indexOf('|', 1))))
                .filter(row -> row.stream().allMatch(n -> ROOM.matcher(n).matches()))
                .toList();
    }

    private static List<String> names(String text) {
        return NAME.matcher(text).results().map(r -> r.group(1)).toList();
    }
}
