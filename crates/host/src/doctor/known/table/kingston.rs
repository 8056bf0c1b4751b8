//! Kingston's drives.

use super::{Family, rated, raw, unverified};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        source: "KompyuterPress 01/2011",
        quoted_source: "",
        sizes: &[raw(&["KINGSTON SNV425S264GB"], 64, 64)],
    },
    Family {
        source: "Kingston, data sheet of the A400",
        quoted_source: "E-Catalog, A2000 beside A400",
        sizes: &[
            unverified(&["SA400S37120G", "SA400M8120G"], 120, 40),
            rated(&["SA400S37240G", "SA400M8240G"], 240, 80),
            unverified(&["SA400S37480G", "SA400M8480G"], 480, 160),
            unverified(&["SA400S37960G", "SA400M8960G"], 960, 300),
        ],
    },
    Family {
        source: "Kingston, data sheet of the UV400",
        quoted_source: "",
        sizes: &[
            unverified(&["SUV400S37120G"], 120, 50),
            unverified(&["SUV400S37240G"], 240, 100),
            unverified(&["SUV400S37480G"], 480, 200),
            unverified(&["SUV400S37960G"], 960, 400),
        ],
    },
    Family {
        source: "Kingston, data sheet of the SSDNow V300",
        quoted_source: "",
        sizes: &[
            unverified(&["SV300S37A60G"], 60, 32),
            unverified(&["SV300S37A120G"], 120, 64),
            unverified(&["SV300S37A240G"], 240, 128),
            unverified(&["SV300S37A480G"], 480, 256),
        ],
    },
    Family {
        source: "Kingston, data sheet of the KC600",
        quoted_source: "",
        sizes: &[
            unverified(&["SKC600256G"], 256, 150),
            unverified(&["SKC600512G"], 512, 300),
            unverified(&["SKC6001024G"], 1024, 600),
            unverified(&["SKC6002048G"], 2048, 1200),
        ],
    },
    Family {
        source: "Kingston, data sheets of the KC2000 and KC2500",
        quoted_source: "",
        sizes: &[
            unverified(&["SKC2000M8250G", "SKC2500M8250G"], 250, 150),
            unverified(&["SKC2000M8500G", "SKC2500M8500G"], 500, 300),
            unverified(&["SKC2000M81000G", "SKC2500M81000G"], 1000, 600),
            unverified(&["SKC2000M82000G", "SKC2500M82000G"], 2000, 1200),
        ],
    },
    Family {
        source: "Kingston, data sheet of the KC3000",
        quoted_source: "",
        sizes: &[
            unverified(&["SKC3000S512G"], 512, 400),
            unverified(&["SKC3000S1024G"], 1024, 800),
            unverified(&["SKC3000D2048G"], 2048, 1600),
            unverified(&["SKC3000D4096G"], 4096, 3200),
        ],
    },
    Family {
        source: "Kingston, data sheet of the A2000",
        quoted_source: "E-Catalog, A2000 beside A400",
        sizes: &[
            rated(&["SA2000M8250G"], 250, 150),
            unverified(&["SA2000M8500G"], 500, 350),
            unverified(&["SA2000M81000G"], 1000, 600),
        ],
    },
    Family {
        source: "Kingston, data sheet of the NV1",
        quoted_source: "E-Catalog, NV2 beside NV1",
        sizes: &[
            unverified(&["SNVS250G"], 250, 60),
            unverified(&["SNVS500G"], 500, 120),
            rated(&["SNVS1000G"], 1000, 240),
            unverified(&["SNVS2000G"], 2000, 480),
        ],
    },
    Family {
        source: "Kingston, data sheet of the NV2",
        quoted_source: "E-Catalog, NV2 beside NV1",
        sizes: &[
            unverified(&["SNV2S250G"], 250, 80),
            unverified(&["SNV2S500G"], 500, 160),
            rated(&["SNV2S1000G"], 1000, 320),
            unverified(&["SNV2S2000G"], 2000, 640),
        ],
    },
    Family {
        source: "Kingston, data sheet of the DC500R (0.5 drive writes a day for 5 years)",
        quoted_source: "",
        sizes: &[
            unverified(&["SEDC500R480G"], 480, 438),
            unverified(&["SEDC500R960G"], 960, 876),
            unverified(&["SEDC500R1920G"], 1920, 1752),
            unverified(&["SEDC500R3840G"], 3840, 3504),
        ],
    },
];
