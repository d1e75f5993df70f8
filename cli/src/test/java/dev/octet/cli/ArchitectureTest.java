package dev.octet.cli;

import static com.tngtech.archunit.base.DescribedPredicate.not;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAPackage;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.tngtech.archunit.base.DescribedPredicate;
import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.library.Architectures;
import dev.octet.formats.file.NativeTrial;
import java.util.List;
import org.jspecify.annotations.NullMarked;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** The rooms of docs/layout.md and which way their doors open. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ArchitectureTest {
    /** Rooms of a module from the bottom up: a room may use those named before it. Rooms on one line do not see each other. */
    private static final List<List<String>> FORMATS_ROOMS = List.of(
            List.of("error"),
            List.of("tensor"),
            List.of("graph"),
            List.of("model"),
            List.of("file"),
            List.of("safetensors", "onnx", "npy"),
            List.of("checkpoint"));

    private static final List<String> MODULES = List.of("formats", "quant", "converter", "trainer", "pipeline");
    private static final List<String> BANNED_ENDINGS =
            List.of("Util", "Utils", "Helper", "Manager", "Impl", "Common", "Base");

    private static JavaClasses octet;

    @BeforeAll
    static void read_all_classes() {
        octet = new ClassFileImporter()
                .withImportOption(ImportOption.Predefined.DO_NOT_INCLUDE_TESTS)
                .importPackages("dev.octet");
    }

    @Test
    void packages_have_no_circles() {
        slices().matching("dev.octet.(**)").should().beFreeOfCycles().check(octet);
    }

    @Test
    void modules_point_from_the_command_line_down_to_formats() {
        Architectures.layeredArchitecture()
                .consideringOnlyDependenciesInLayers()
                .withOptionalLayers(true)
                .layer("formats")
                .definedBy("dev.octet.formats..")
                .layer("quant")
                .definedBy("dev.octet.quant..")
                .layer("converter")
                .definedBy("dev.octet.converter..")
                .layer("trainer")
                .definedBy("dev.octet.trainer..")
                .layer("pipeline")
                .definedBy("dev.octet.pipeline..")
                .layer("cli")
                .definedBy("dev.octet.cli..")
                .whereLayer("cli")
                .mayNotBeAccessedByAnyLayer()
                .whereLayer("pipeline")
                .mayOnlyBeAccessedByLayers("cli")
                .whereLayer("converter")
                .mayOnlyBeAccessedByLayers("pipeline", "cli")
                .whereLayer("trainer")
                .mayOnlyBeAccessedByLayers("pipeline", "cli")
                .whereLayer("quant")
                .mayOnlyBeAccessedByLayers("converter", "trainer", "pipeline", "cli")
                .check(octet);
    }

    @Test
    void the_rooms_of_formats_point_downwards() {
        for (int i = 0; i < FORMATS_ROOMS.size(); i++) {
            for (String room : FORMATS_ROOMS.get(i)) {
                String[] above = FORMATS_ROOMS.subList(i, FORMATS_ROOMS.size()).stream()
                        .flatMap(List::stream)
                        .filter(r -> !r.equals(room))
                        .map(r -> "dev.octet.formats." + r + "..")
                        .toArray(String[]::new);
                if (above.length > 0) {
                    noClasses()
                            .that()
                            .resideInAPackage("dev.octet.formats." + room + "..")
                            .should()
                            .dependOnClassesThat()
                            .resideInAnyPackage(above)
                            .allowEmptyShould(true)
                            .check(octet);
                }
            }
        }
    }

    @Test
    void nothing_below_uses_the_root_class_of_its_module() {
        for (String module : MODULES) {
            String root = "dev.octet." + module;
            noClasses()
                    .that(resideInAPackage(root + "..").and(not(resideInAPackage(root))))
                    .should()
                    .dependOnClassesThat(resideInAPackage(root).and(not(isVersion())))
                    .allowEmptyShould(true)
                    .check(octet);
        }
    }

    /** A constant that writers put into files; it depends on nothing. */
    private static DescribedPredicate<JavaClass> isVersion() {
        return DescribedPredicate.describe(
                "the version of Octet", c -> c.getName().equals("dev.octet.formats.OctetVersion"));
    }

    @Test
    void only_one_room_runs_onnx_runtime() {
        onlyFrom("ai.onnxruntime..", "dev.octet.converter.runtime..");
    }

    @Test
    void only_two_rooms_know_protobuf() {
        // event files of TensorBoard are protobuf messages too; their few fields are written without generated classes
        onlyFrom("com.google.protobuf..", "dev.octet.formats.onnx..", "dev.octet.trainer.tensorboard..");
        onlyFrom("dev.octet.formats.onnx.proto..", "dev.octet.formats.onnx..");
    }

    @Test
    void only_the_cuda_device_knows_jcuda() {
        onlyFrom("jcuda..", "dev.octet.trainer.device.cuda..");
    }

    private static void onlyFrom(String library, String... rooms) {
        noClasses()
                .that()
                .resideOutsideOfPackages(rooms)
                .should()
                .dependOnClassesThat()
                .resideInAPackage(library)
                .allowEmptyShould(true)
                .check(octet);
    }

    @Test
    void only_the_command_line_prints() {
        noClasses()
                .that()
                .resideOutsideOfPackage("dev.octet.cli..")
                .and()
                .resideOutsideOfPackage("dev.octet.bench..")
                .and()
                .doNotBelongToAnyOf(NativeTrial.class) // answers from a process of its own
                .should()
                .accessField(System.class, "out")
                .orShould()
                .accessField(System.class, "err")
                .orShould()
                .callMethod(System.class, "exit", int.class)
                .check(octet);
    }

    @Test
    void names_say_what_a_class_is() {
        for (String ending : BANNED_ENDINGS) {
            classes()
                    .that()
                    .resideOutsideOfPackage("dev.octet.formats.onnx.proto..")
                    .should()
                    .haveSimpleNameNotEndingWith(ending)
                    .because("a name ending with " + ending + " does not say what the class does")
                    .check(octet);
        }
    }

    @Test
    void every_room_says_what_it_is_for_and_is_null_marked() {
        octet.stream()
                .map(JavaClass::getPackage)
                .filter(p -> !p.getName().equals("dev.octet.formats.onnx.proto"))
                .distinct()
                .forEach(p -> assertTrue(
                        p.tryGetPackageInfo()
                                .filter(i -> i.isAnnotatedWith(NullMarked.class))
                                .isPresent(),
                        p.getName() + " has no package-info.java with @NullMarked"));
    }
}
