package dev.octet.pipeline.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** Schedules of pipelines, played through. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class PipelineScheduleTest {
    @Test
    void the_bubble_is_that_of_the_formula_for_every_number_of_stages_and_chunks() {
        for (int stages = 1; stages <= 16; stages++) {
            for (int chunks = 1; chunks <= (stages == 1 ? 1 : 4); chunks++) {
                for (int groups = 1; groups <= 3; groups++) {
                    int microBatches = stages * groups;
                    double idle = (stages - 1.0) / chunks;
                    assertEquals(
                            idle / (microBatches + idle),
                            new PipelineSchedule(stages, chunks, microBatches).bubble(),
                            1e-12,
                            stages + " stages, " + chunks + " chunks, " + microBatches + " micro-batches");
                }
            }
        }
    }

    @Test
    void a_schedule_with_fewer_micro_batches_than_stages_waits_as_the_formula_says() {
        assertEquals(15.0 / 19, new PipelineSchedule(16, 1, 4).bubble(), 1e-12);
    }

    @Test
    void one_forward_one_backward_is_drawn_as_papers_draw_it() {
        assertEquals(
                List.of(
                        "stage 1  0123......aa.bb.cc.dd",
                        "stage 2  .012....aa3bb.cc.dd..",
                        "stage 3  ..01..aa2bb3cc.dd....",
                        "stage 4  ...0aa1bb2cc3dd......"),
                new PipelineSchedule(4, 1, 4).text(80, 8));
    }

    @Test
    void a_drawing_fits_its_columns_and_lines() {
        for (int stages : new int[] {2, 7, 33, 64}) {
            PipelineSchedule schedule = new PipelineSchedule(stages, 2, 4 * stages);
            List<String> lines = schedule.text(76, 9);
            assertTrue(lines.size() <= 9, lines.toString());
            lines.forEach(l -> assertTrue(l.length() <= 76, l));
            assertTrue(lines.getLast().contains("stage " + stages), lines.toString());
        }
    }

    @Test
    void an_interleaved_schedule_takes_micro_batches_by_stages() {
        assertThrows(IllegalArgumentException.class, () -> new PipelineSchedule(4, 2, 6));
    }
}
