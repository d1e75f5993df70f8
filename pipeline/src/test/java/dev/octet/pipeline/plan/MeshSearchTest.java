package dev.octet.pipeline.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.pipeline.plan.Accelerator.ProductType;
import dev.octet.trainer.collective.Mesh;
import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** Ways to share the work, searched. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class MeshSearchTest {
    private static final String WHERE = "test";

    private static MeshSearch search(String model, String hardware, String mesh, long samples) throws IOException {
        return new MeshSearch(
                new DecoderWorkload(PlanData.sizes(model)),
                new PlannedStep(samples, 8192, ProductType.BF16, ParameterBytes.BF16_ADAM),
                Hardware.parse(hardware, WHERE),
                mesh.isEmpty() ? MeshRules.NONE : MeshRules.parse(mesh, WHERE));
    }

    @Test
    void every_way_that_fits_is_on_all_devices_within_their_memory_and_slower_than_the_one_before() throws IOException {
        List<Choice> ways = search("llama3-70b", "64xH100", "", 512).run().fitting();
        assertTrue(ways.size() > 10, ways.size() + " ways");
        long usable = Estimate.usable(Accelerator.named("H100", WHERE));
        double before = 0;
        for (Choice c : ways) {
            assertEquals(64, c.mesh().size());
            assertEquals(512L, c.microBatches() * c.microBatch() * c.mesh().data());
            assertTrue(c.bytes().total() <= usable, c.mesh() + " " + c.bytes());
            assertTrue(c.time().total() >= before, c.mesh() + " " + c.time());
            before = c.time().total();
        }
    }

    @Test
    void every_way_that_is_missing_needs_more_than_there_is() throws IOException {
        List<Choice> missing = search("llama3-70b", "64xH100", "", 512).run().missing();
        long usable = Estimate.usable(Accelerator.named("H100", WHERE));
        assertTrue(missing.size() > 5, missing.size() + " ways");
        missing.forEach(c -> assertTrue(c.bytes().total() > usable, c.mesh() + " " + c.bytes()));
    }

    @Test
    void what_is_given_of_a_mesh_is_kept() throws IOException {
        MeshSearch.Found found = search("llama3-70b", "64xH100", "tensor=4,zero=1,micro_batch=1,recompute=all", 512)
                .run();
        for (Choice c : found.fitting()) {
            assertEquals(4, c.mesh().tensor());
            assertTrue(c.mesh().zero() == 1 || c.mesh().data() == 1, "zero");
            assertEquals(1, c.microBatch());
            assertTrue(c.recompute());
        }
    }

    @Test
    void stages_share_out_weights_but_hold_gradients_whole_until_the_end_of_a_step() throws IOException {
        MeshSearch.Found found = search("llama3-8b", "16xH100", "pipeline=2,tensor=1,chunks=1,recompute=all", 64)
                .run();
        assertTrue(found.fitting().stream().anyMatch(c -> c.mesh().zero() == 3), "zero 3 with stages");
        Estimate estimate = new Estimate(
                new DecoderWorkload(PlanData.sizes("llama3-8b")),
                new PlannedStep(64, 8192, ProductType.BF16, ParameterBytes.BF16_ADAM),
                Hardware.parse("16xH100", WHERE));
        DeviceBytes one = estimate.of(new Mesh(8, 1, 2, 1, 1), 1, true).bytes();
        DeviceBytes three = estimate.of(new Mesh(8, 1, 2, 1, 3), 1, true).bytes();
        assertEquals(one.gradients(), three.gradients());
        assertEquals(one.weights() / 8, three.weights());
    }

    @Test
    void the_smallest_change_fits_and_no_change_of_fewer_settings_does() throws IOException {
        MeshSearch search = search("llama3-8b", "8xH100", "", 64);
        Workload model = new DecoderWorkload(PlanData.sizes("llama3-8b"));
        PlannedStep work = new PlannedStep(64, 8192, ProductType.BF16, ParameterBytes.BF16_ADAM);
        Estimate estimate = new Estimate(model, work, Hardware.parse("8xH100", WHERE));
        Choice plain = estimate.of(new Mesh(8, 1, 1, 1, 0), 1, false);
        long usable = Estimate.usable(Accelerator.named("H100", WHERE));
        assertTrue(plain.bytes().total() > usable, "144 GB of state alone");
        Choice nearest = search.nearest(plain).orElseThrow();
        assertTrue(nearest.bytes().total() <= usable, nearest.bytes().toString());
        assertEquals(1, MeshSearch.changes(nearest, plain), nearest.mesh().toString());
    }

    @Test
    void enough_devices_are_found_where_these_are_too_few() throws IOException {
        assertTrue(search("llama3-70b", "8xA100", "", 512).run().fitting().isEmpty());
        int enough = search("llama3-70b", "8xA100", "", 512).least(1 << 16);
        assertTrue(enough > 8, enough + " devices");
        assertTrue(
                !search("llama3-70b", enough + "xA100", "", 512).run().fitting().isEmpty());
        assertTrue(search("llama3-70b", enough / 2 + "xA100", "", 512)
                .run()
                .fitting()
                .isEmpty());
    }

    @Test
    void a_mesh_that_divides_no_heads_is_refused_with_their_number() throws IOException {
        InvalidOptionException e =
                assertThrows(InvalidOptionException.class, search("llama3-8b", "9xH100", "tensor=3", 9)::run);
        assertTrue(e.what().contains("32 heads of attention are not divisible by tensor 3"), e.what());
    }

    @Test
    void a_mesh_that_divides_no_layers_is_refused_with_their_number() throws IOException {
        InvalidOptionException e =
                assertThrows(InvalidOptionException.class, search("llama3-8b", "9xH100", "pipeline=9", 9)::run);
        assertTrue(e.what().contains("32 layers are not divisible by pipeline 9"), e.what());
    }

    @Test
    void a_mesh_that_divides_no_devices_is_refused_with_their_number() throws IOException {
        InvalidOptionException e =
                assertThrows(InvalidOptionException.class, search("llama3-8b", "8xH100", "tensor=3", 8)::run);
        assertTrue(e.what().contains("8xH100 cannot be dealt out by tensor 3"), e.what());
    }

    @Test
    void unknown_hardware_is_answered_with_the_names() {
        InvalidOptionException e = assertThrows(InvalidOptionException.class, () -> Hardware.parse("8xH1000", WHERE));
        Accelerator.ALL.forEach(a -> assertTrue(e.fix().contains(a.name()), a.name()));
    }

    @Test
    void hardware_is_a_number_and_a_name_in_any_case() {
        assertEquals("64xH100", Hardware.parse("64xh100", WHERE).text());
        assertEquals("A100-40GB", Hardware.parse("a100-40gb", WHERE).text());
        assertThrows(InvalidOptionException.class, () -> Hardware.parse("0xH100", WHERE));
    }

    @Test
    void an_unknown_key_of_a_mesh_is_answered_with_the_nearest() {
        InvalidOptionException e = assertThrows(InvalidOptionException.class, () -> MeshRules.parse("tensr=8", WHERE));
        assertTrue(e.fix().contains("tensor"), e.fix());
        assertThrows(InvalidOptionException.class, () -> MeshRules.parse("zero=4", WHERE));
        assertThrows(InvalidOptionException.class, () -> MeshRules.parse("recompute=some", WHERE));
    }

    @Test
    void fp8_takes_less_time_where_there_is_fp8_and_the_same_where_there_is_none() throws IOException {
        Workload model = new DecoderWorkload(PlanData.sizes("llama3-8b"));
        for (String name : List.of("H100", "A100")) {
            Hardware hardware = Hardware.parse("8x" + name, WHERE);
            Mesh mesh = new Mesh(8, 1, 1, 1, 3);
            double[] compute = new double[2];
            for (int i = 0; i < 2; i++) {
                ProductType type = i == 0 ? ProductType.BF16 : ProductType.FP8;
                PlannedStep work = new PlannedStep(64, 2048, type, ParameterBytes.adam(type));
                compute[i] = new Estimate(model, work, hardware)
                        .of(mesh, 1, false)
                        .time()
                        .compute();
            }
            double part = compute[1] / compute[0];
            assertTrue(name.equals("H100") ? part < 0.7 : part > 0.9 && part <= 1, name + " " + part);
        }
    }
}
