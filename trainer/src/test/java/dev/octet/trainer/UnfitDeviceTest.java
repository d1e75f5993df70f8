package dev.octet.trainer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.DeviceLostException;
import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.hook.StepReport;
import dev.octet.trainer.hook.TrainingHook;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Devices that cannot do what a configuration asks for, or stop doing it. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class UnfitDeviceTest {
    @TempDir
    Path folder;

    /** A processor that behaves like a GPU without FP8. */
    private record WithoutFp8(Device device) implements Device {
        @Override
        public String name() {
            return "old";
        }

        @Override
        public String products() {
            return device.products();
        }

        @Override
        public boolean multipliesFp8() {
            return false;
        }

        @Override
        public Memory allocate(Collection<Value> lasting) {
            return device.allocate(lasting);
        }

        @Override
        public Executable load(Program program, Memory memory) {
            return device.load(program, memory);
        }

        @Override
        public void close() {
            device.close();
        }
    }

    private static Trainer trainer(Device device, String precision) {
        return Trainer.of(SmallRun.parts(SmallRun.with("steps: 6", "precision: {" + precision + "}")), device);
    }

    @Test
    void fp8_on_a_device_without_it_is_refused_unless_told_otherwise() {
        try (Device device = new WithoutFp8(CpuDevice.of(1))) {
            UnavailableException e = assertThrows(UnavailableException.class, () -> trainer(device, "mode: fp8"));
            assertTrue(e.what().startsWith("the device does not multiply FP8"), e.what());
            assertTrue(e.where().startsWith("old, "), e.where());
            assertTrue(e.fix().contains("precision.on_unsupported: base"), e.fix());
        }
    }

    @Test
    void the_base_type_takes_the_place_of_fp8_when_allowed() throws IOException {
        try (Device device = new WithoutFp8(CpuDevice.of(1));
                Trainer replaced = trainer(device, "mode: fp8, on_unsupported: base");
                Trainer bf16 = trainer(device, "mode: bf16")) {
            assertTrue(
                    replaced.plan().notes().stream().anyMatch(n -> n.startsWith("precision.on_unsupported: old")),
                    replaced.plan().notes().toString());
            assertEquals(
                    bf16.run(folder.resolve("bf16"), options()).totals().lastLoss(),
                    replaced.run(folder.resolve("replaced"), options()).totals().lastLoss());
        }
    }

    @Test
    void fake_quantisation_multiplies_no_codes() throws IOException {
        try (Device device = new WithoutFp8(CpuDevice.of(1));
                Trainer trainer = trainer(device, "mode: fp8, fake_quantize: true")) {
            assertEquals(List.of(), trainer.plan().notes());
        }
    }

    private static RunOptions options(TrainingHook... hooks) {
        return new RunOptions(false, 0, Integer.MAX_VALUE, List.of(hooks), Map.of());
    }

    /** As if the GPU had failed. */
    private record Loss(long step) implements TrainingHook {
        @Override
        public void afterStep(StepReport report) {
            if (report.step() == step) {
                throw new DeviceLostException("cuGraphLaunch failed", "cuda:0", "continue with --resume", null);
            }
        }
    }

    private DeviceLostException lost(long step) {
        try (Device device = CpuDevice.of(1);
                Trainer trainer = Trainer.of(SmallRun.parts(SmallRun.with("checkpoint: {every: 10}")), device)) {
            return assertThrows(DeviceLostException.class, () -> trainer.run(folder, options(new Loss(step))));
        }
    }

    @Test
    void a_lost_device_leaves_the_last_checkpoint_and_names_it() {
        DeviceLostException e = lost(25);
        assertTrue(e.fix().startsWith("the last checkpoint is " + folder), e.fix());
        assertTrue(e.fix().contains("(step 20)"), e.fix());
        assertTrue(e.fix().endsWith("continue with --resume"), e.fix());
        assertTrue(e.what().startsWith("cuGraphLaunch failed at step 2"), e.what());
        assertEquals("cuda:0", e.where());
    }

    @Test
    void a_device_lost_before_the_first_checkpoint_says_so() {
        assertTrue(lost(5).fix().startsWith("there was no checkpoint yet"));
    }
}
