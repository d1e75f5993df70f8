package dev.octet.trainer.step;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RecentProgramsTest {
    private final List<String> made = new ArrayList<>();
    private final List<String> closed = new ArrayList<>();
    private final RecentPrograms<Integer, String> programs = new RecentPrograms<>(closed::add);

    private void use(int shape) {
        String program = programs.get(shape, s -> {
            made.add("program " + s);
            return made.getLast();
        });
        assertEquals("program " + shape, program);
    }

    @Test
    void the_one_used_longest_ago_goes_when_there_are_too_many() {
        for (int shape = 0; shape < RecentPrograms.MAX; shape++) {
            use(shape);
        }
        use(0);
        assertEquals(List.of(), closed);
        use(RecentPrograms.MAX);
        assertEquals(List.of("program 1"), closed);
        assertEquals(RecentPrograms.MAX, programs.all().size());
        use(0);
        use(1);
        assertEquals(List.of("program 1", "program 2"), closed);
        assertEquals(RecentPrograms.MAX + 2, made.size());
    }

    @Test
    void closing_frees_those_that_are_kept() {
        use(7);
        use(8);
        programs.close();
        assertEquals(List.of("program 7", "program 8"), closed);
    }
}
