//! Micron's and Crucial's drives.

use super::{Family, rated, unverified};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        source: "Crucial, product flyer of the MX500",
        quoted_source: "check_smart, list of warranties",
        sizes: &[
            rated(&["CT250MX500SSD"], 250, 100),
            rated(&["CT500MX500SSD"], 500, 180),
            rated(&["CT1000MX500SSD"], 1000, 360),
            rated(&["CT2000MX500SSD"], 2000, 700),
            rated(&["CT4000MX500SSD"], 4000, 1000),
        ],
    },
    Family {
        source: "Crucial, product flyer of the MX300",
        quoted_source: "Micron, MX300 data sheet",
        sizes: &[
            unverified(&["CT275MX300SSD"], 275, 80),
            unverified(&["CT525MX300SSD"], 525, 160),
            unverified(&["CT750MX300SSD"], 750, 220),
            unverified(&["CT1050MX300SSD"], 1050, 360),
            rated(&["CT2050MX300SSD"], 2050, 400),
        ],
    },
    Family {
        source: "Crucial, product flyer of the MX200",
        quoted_source: "",
        sizes: &[
            unverified(&["CT250MX200SSD"], 250, 80),
            unverified(&["CT500MX200SSD"], 500, 160),
            unverified(&["CT1000MX200SSD"], 1000, 320),
        ],
    },
    Family {
        source: "Crucial, product flyer of the MX100",
        quoted_source: "",
        sizes: &[
            unverified(&["CT128MX100SSD"], 128, 72),
            unverified(&["CT256MX100SSD"], 256, 72),
            unverified(&["CT512MX100SSD"], 512, 72),
        ],
    },
    Family {
        source: "Crucial, product flyer of the M500",
        quoted_source: "",
        sizes: &[
            unverified(&["CT120M500SSD"], 120, 72),
            unverified(&["CT240M500SSD"], 240, 72),
            unverified(&["CT480M500SSD"], 480, 72),
            unverified(&["CT960M500SSD"], 960, 72),
        ],
    },
    Family {
        source: "Crucial, product flyer of the M550",
        quoted_source: "",
        sizes: &[
            unverified(&["CT128M550SSD"], 128, 72),
            unverified(&["CT256M550SSD"], 256, 72),
            unverified(&["CT512M550SSD"], 512, 72),
            unverified(&["CT1024M550SSD"], 1024, 72),
        ],
    },
    Family {
        source: "Crucial, product flyer of the BX100",
        quoted_source: "",
        sizes: &[
            unverified(&["CT120BX100SSD"], 120, 72),
            unverified(&["CT250BX100SSD"], 250, 72),
            unverified(&["CT500BX100SSD"], 500, 72),
            unverified(&["CT1000BX100SSD"], 1000, 72),
        ],
    },
    Family {
        source: "Crucial, product flyer of the BX500",
        quoted_source: "OC Inside, review of the BX500",
        sizes: &[
            unverified(&["CT120BX500SSD"], 120, 40),
            rated(&["CT240BX500SSD"], 240, 80),
            rated(&["CT480BX500SSD"], 480, 120),
            rated(&["CT1000BX500SSD"], 1000, 360),
            unverified(&["CT2000BX500SSD"], 2000, 720),
        ],
    },
    Family {
        source: "Crucial, product flyer of the P1",
        quoted_source: "",
        sizes: &[
            unverified(&["CT500P1SSD"], 500, 100),
            unverified(&["CT1000P1SSD"], 1000, 200),
            unverified(&["CT2000P1SSD"], 2000, 400),
        ],
    },
    Family {
        source: "Crucial, product flyer of the P2",
        quoted_source: "",
        sizes: &[
            unverified(&["CT250P2SSD"], 250, 150),
            unverified(&["CT500P2SSD"], 500, 150),
            unverified(&["CT1000P2SSD"], 1000, 300),
            unverified(&["CT2000P2SSD"], 2000, 600),
        ],
    },
    Family {
        source: "Crucial, product flyers of the P3 and P3 Plus",
        quoted_source: "",
        sizes: &[
            unverified(&["CT500P3SSD", "CT500P3PSSD"], 500, 110),
            unverified(&["CT1000P3SSD", "CT1000P3PSSD"], 1000, 220),
            unverified(&["CT2000P3SSD", "CT2000P3PSSD"], 2000, 440),
            unverified(&["CT4000P3SSD", "CT4000P3PSSD"], 4000, 800),
        ],
    },
    Family {
        source: "Crucial, product flyers of the P5 and P5 Plus",
        quoted_source: "",
        sizes: &[
            unverified(&["CT500P5SSD", "CT500P5PSSD"], 500, 300),
            unverified(&["CT1000P5SSD", "CT1000P5PSSD"], 1000, 600),
            unverified(&["CT2000P5SSD", "CT2000P5PSSD"], 2000, 1200),
        ],
    },
    Family {
        source: "Micron, product brief of the 5100 MAX (5 drive writes a day for 5 years)",
        quoted_source: "The SSD Guy, Micron 5100",
        sizes: &[
            rated(&["240TCC"], 240, 2190),
            rated(&["480TCC"], 480, 4380),
            rated(&["960TCC"], 960, 8760),
            rated(&["1T9TCC"], 1920, 17520),
        ],
    },
    Family {
        source: "Micron, product brief of the 5300 MAX",
        quoted_source: "check_smart, list of warranties",
        sizes: &[rated(&["MTFDDAK960TDT"], 960, 8760)],
    },
    Family {
        source: "Micron, product brief of the 7400 PRO (1 drive write a day for 5 years)",
        quoted_source: "Hardware Times, Micron 7400",
        sizes: &[
            rated(&["480TDZ"], 480, 876),
            rated(&["960TDZ"], 960, 1752),
            rated(&["1T9TDZ"], 1920, 3504),
            rated(&["3T8TDZ"], 3840, 7008),
            rated(&["7T6TDZ"], 7680, 14016),
        ],
    },
    Family {
        source: "Micron, product brief of the 7400 MAX (3 drive writes a day for 5 years)",
        quoted_source: "Hardware Times, Micron 7400",
        sizes: &[
            rated(&["400TFC"], 400, 2190),
            rated(&["800TFC"], 800, 4380),
            rated(&["1T6TFC"], 1600, 8760),
            rated(&["3T2TFC"], 3200, 17520),
            rated(&["6T4TFC"], 6400, 35040),
        ],
    },
    Family {
        source: "Micron, product brief of the 7450 PRO (1 drive write a day for 5 years)",
        quoted_source: "",
        sizes: &[
            unverified(&["480TFR"], 480, 876),
            unverified(&["960TFR"], 960, 1752),
            unverified(&["1T9TFR"], 1920, 3504),
            unverified(&["3T8TFR"], 3840, 7008),
            unverified(&["7T6TFR"], 7680, 14016),
            unverified(&["15T3TFR"], 15360, 28032),
        ],
    },
    Family {
        source: "Micron, product brief of the 7450 MAX (3 drive writes a day for 5 years)",
        quoted_source: "",
        sizes: &[
            unverified(&["400TFS"], 400, 2190),
            unverified(&["800TFS"], 800, 4380),
            unverified(&["1T6TFS"], 1600, 8760),
            unverified(&["3T2TFS"], 3200, 17520),
            unverified(&["6T4TFS"], 6400, 35040),
            unverified(&["12T8TFS"], 12800, 70080),
        ],
    },
];
