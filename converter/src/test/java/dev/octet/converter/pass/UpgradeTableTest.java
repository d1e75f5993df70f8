package dev.octet.converter.pass;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.TreeSet;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class UpgradeTableTest {
    /** Versions by operator, as ONNX's own schema registry lists them; made by one line of Python named in the file. */
    private static Map<String, List<Integer>> operators() throws IOException {
        Map<String, List<Integer>> operators = new TreeMap<>();
        try (InputStream in = Objects.requireNonNull(UpgradeTableTest.class.getResourceAsStream("operators.csv"))) {
            new String(in.readAllBytes(), StandardCharsets.UTF_8)
                    .lines()
                    .filter(l -> !l.startsWith("#"))
                    .forEach(l -> {
                        String[] cells = l.split(",", 2);
                        operators.put(
                                cells[0],
                                Arrays.stream(cells[1].split(" "))
                                        .map(Integer::valueOf)
                                        .toList());
                    });
        }
        return operators;
    }

    @Test
    void every_change_of_every_operator_between_10_and_21_has_a_row() throws IOException {
        operators().forEach((op, versions) -> {
            if (versions.getFirst() > OpsetUpgrade.TARGET) {
                return;
            }
            assertTrue(UpgradeTable.knows(op), op);
            TreeSet<Integer> changes = new TreeSet<>(versions.subList(1, versions.size()));
            assertEquals(
                    changes.subSet(OpsetUpgrade.OLDEST + 1, true, OpsetUpgrade.TARGET, true),
                    UpgradeTable.versions(op),
                    op);
        });
    }

    @Test
    void the_table_names_no_operator_that_onnx_does_not_have() throws IOException {
        TreeSet<String> strangers = new TreeSet<>(UpgradeTable.operators());
        strangers.removeAll(operators().keySet());
        assertEquals(new TreeSet<String>(), strangers);
    }
}
