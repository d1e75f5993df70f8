package dev.octet.pipeline.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.pipeline.plan.Accelerator.ProductType;
import dev.octet.trainer.collective.Mesh;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** Step times beside those that papers report. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class PublishedStepTimesTest {
    /** What docs/plan.md promises. */
    private static final double PART = 0.2;

    @Test
    void step_times_of_published_runs_come_out_within_a_fifth() throws IOException {
        List<String[]> rows = PlanData.rows("published.csv");
        assertEquals(10, rows.size());
        for (String[] row : rows) {
            double published = Double.parseDouble(row[7].strip());
            double seconds = choice(row).time().total();
            assertEquals(published, seconds, PART * published, String.join(" | ", row));
        }
    }

    @Test
    void published_runs_on_80_GB_fit_it() throws IOException {
        for (String[] row : PlanData.rows("published.csv")) {
            // Llama 3's own runs deal out more than the table of stages says
            assertTrue(
                    row[0].startsWith("llama")
                            || choice(row).bytes().total() <= Estimate.usable(Accelerator.named("A100", "test")),
                    String.join(" | ", row));
        }
    }

    private static Choice choice(String[] row) throws IOException {
        int[] m = Arrays.stream(row[2].strip().split(" ", -1))
                .mapToInt(Integer::parseInt)
                .toArray();
        Mesh mesh = new Mesh(m[0], m[1], m[2], m[3], m[4]);
        PlannedStep work = new PlannedStep(
                Long.parseLong(row[4].strip()),
                Integer.parseInt(row[5].strip()),
                ProductType.BF16,
                ParameterBytes.BF16_ADAM);
        Workload model = new DecoderWorkload(PlanData.sizes(row[0].strip()));
        assertTrue(model.against(mesh).isEmpty(), row[0]);
        return new Estimate(model, work, Hardware.parse(row[1].strip(), "test"))
                .of(mesh, Integer.parseInt(row[3].strip()), row[6].strip().equals("yes"));
    }
}
